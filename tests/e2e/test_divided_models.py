"""Models of which no rank holds all: shards are no replicas, stages neither, and what each rank saves is a part."""

from __future__ import annotations

import pytest
from styles import plan_of_script

from breakrank.run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.plan import at

#: FSDP2, with a checkpoint after each step, in the background in the first attempt.
SCRIPT = """\
import os
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
begin = 0
whole = [folder for folder in sorted(os.listdir(".")) if os.path.exists(folder + "/.metadata")]
if whole:
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)), step=torch.tensor(0))
    dcp.load(state, checkpoint_id=whole[-1])
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    begin = int(state["step"])
for step in range(begin, 5):
    torch.manual_seed(10 * step + dist.get_rank())
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)), step=torch.tensor(step + 1))
    if whole:
        dcp.save(state, checkpoint_id=f"step-{step + 1}")
    else:
        dcp.async_save(state, checkpoint_id=f"step-{step + 1}").result()
dist.barrier()
dist.destroy_process_group()
"""

SHARDS = "each rank holds a shard of the parameters, of which no other rank has a replica"
STAGES = "each rank holds other parameters than the others"


@pytest.mark.parametrize(("program", "reason"), [
    ("flat_shards", SHARDS), ("columns_and_rows", None), ("stages", STAGES), ("odd_tensors", None),
])  # fmt: skip
def test_nothing_is_objected_to_in_a_model_that_is_divided(run, program, reason):
    result, _ = run(f"divided:{program}", deadline_s=60.0)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert result.verdict.abstained.get("replicas") == reason


def test_what_is_no_shard_is_held_against_the_other_ranks(run):
    result, _ = run("divided:columns_and_rows_apart", deadline_s=60.0)
    assert result.verdict.outcome is Outcome.SILENT, result.verdict
    (finding, *_) = result.verdict.findings
    assert (finding.oracle, finding.cause, finding.step) == ("replicas", "replicas differ", 1)
    assert finding.evidence["parameters"] == ["2.bias", "3.weight", "3.bias"]


def test_a_sharded_script_goes_on_where_its_checkpoint_of_many_parts_was(bench, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    kill = faults.Kill() @ at(rank=1, step=3, point="optimize")
    result = bench.run(plan_of_script("train.py", [kill], restarts=1), where=tmp_path)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    history = load_run(result.folder).history
    for lived in history.attempt(0):
        assert [(e["path"], e["done"]) for e in lived.payloads("save")] == [("step-1", 1), ("step-2", 2)]
    for lived in history.last:
        (restored,) = lived.payloads("restore")
        saved = history.ranks[0, lived.rank].payloads("save")[-1]
        assert (restored["path"], restored["file"]) == ("step-2", saved["file"])
        # The step by which torch makes the optimizer's state is none of the training.
        assert lived.last_step == 3
