"""Models that are divided among ranks: shards and stages are no replicas, and each rank saves a part of the model."""

from __future__ import annotations

import pytest

from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

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
    assert (finding.oracle, finding.cause, finding.step) == ("replicas", "replicas differ from the start", 1)
    assert finding.evidence["parameters"] == ["3.weight"]


def test_sharded_training_goes_on_where_its_checkpoint_of_many_parts_was(run):
    kill = faults.Kill() @ at(rank=1, step=3, point="optimize")
    result, saved = run("divided:saved_in_parts", kill, steps=5, restarts=1, deadline_s=60.0)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    for lived in saved.history.attempt(0):
        assert [(e["path"], e["done"]) for e in lived.payloads("save")] == [("step-1", 1), ("step-2", 2)]
    for lived in saved.history.last:
        (restored,) = lived.payloads("restore")
        last = saved.history.ranks[0, lived.rank].payloads("save")[-1]
        assert (restored["path"], restored["file"]) == ("step-2", last["file"])
        # The step by which torch makes the optimizer's state does not count as a step of the training.
        assert lived.last_step == 3
