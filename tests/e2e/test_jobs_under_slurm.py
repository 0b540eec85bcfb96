"""Ranks that Slurm starts on two hosts: outcomes, blame and digests are those of one machine."""

from __future__ import annotations

import os
import socket
import sys

import pytest
from support.catalogued import SCENARIOS
from support.lasting import soak
from support.slurm import folder_of, lacks, leased

from breakrank.plan.build import Choices, make_plan
from breakrank.plan.for_scripts import make_script_plans
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome

pytestmark = pytest.mark.skipif(bool(lacks()), reason=lacks())

SCRIPT = """
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

rank, world = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID"))), 2
os.environ.setdefault("MASTER_ADDR", "n1")
os.environ.setdefault("MASTER_PORT", str(40000 + int(os.environ.get("SLURM_JOB_ID", "0")) % 20000))
dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 100 + rank))
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(os.uname().nodename, "rank", rank, "step", step + 1, flush=True)
if rank == 0:
    torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
"""
SRUN = f"srun -n 2 -N 2 {sys.executable} train.py"
SBATCH = "sbatch --wait job.sh"
#: Two ranks of one machine that nobody ends: neither does srun.
HERE = "bash here.sh"
FILES = {
    "train.py": SCRIPT,
    "job.sh": f"#!/bin/sh\n#SBATCH -N 2 -n 2\n{sys.executable} -c 'import torch'\nsrun {sys.executable} train.py\n",
    "here.sh": "export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}\n"
    f"RANK=0 {sys.executable} train.py & first=$!\nRANK=1 {sys.executable} train.py & second=$!\n"
    "wait $first; code=$?; wait $second || code=$?; exit $code\n",
}


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def shared():
    """Return a folder that the nodes share with this machine."""
    with leased() as cluster, folder_of(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def cluster_bench(shared):
    """Return a bench whose runs the nodes see."""
    with Bench(shared / "runs", cold=True) as made:
        yield made


@pytest.fixture(scope="module")
def ran():
    """Return what was run so far, by the command and the scenario."""
    return {}


@pytest.fixture
def script(shared, cluster_bench, ran):
    """Return a function that runs a command with the user's script under a scenario, once, and what was saved."""
    where = shared / "job"
    where.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (where / name).write_text(text.replace("{port}", str(free_port())))

    def go(command, scenario):
        if (command, scenario) in ran:
            return ran[command, scenario]
        plans = make_script_plans(SCENARIOS[scenario], command.split(), Choices(deadline_s=200.0))
        result = cluster_bench.run(Request(next(iter(plans.values())), where=where))
        assert sorted(path.name for path in where.iterdir()) == sorted(FILES), "the user's folder was written to"
        ran[command, scenario] = result, load_run(result.folder)
        return ran[command, scenario]

    return go


def said(result):
    """Return what is to be equal: the outcome, the findings, the blame, the digest."""
    verdict = result.verdict
    findings = [(f.oracle, f.cause, f.ranks, f.step) for f in verdict.findings]
    return verdict.outcome, findings, verdict.blame.ranks, verdict.digest, verdict.void


@pytest.mark.parametrize("scenario", [soak("baseline"), "killed_rank", soak("stopped_rank")])
def test_a_script_under_srun_gets_the_verdict_of_one_machine(script, scenario):
    there, saved = script(SRUN, scenario)
    assert {event["node"] for event in saved.history.seen("spawned")} == {"n1", "n2"}
    here, _ = script(HERE, scenario)
    assert said(there) == said(here)
    assert not there.verdict.void


def test_a_script_under_sbatch_gets_the_verdict_of_srun(script):
    """A Python of the batch script itself that imports torch is no rank."""
    batch, saved = script(SBATCH, "killed_rank")
    assert [event["state"] for event in saved.history.seen("job")] in (["FAILED"], ["COMPLETING"])
    direct, _ = script(SRUN, "killed_rank")
    assert said(batch) == said(direct)
    assert not batch.verdict.void


def test_the_output_of_a_batch_job_lies_in_the_copy(script):
    result, _ = script(SBATCH, "baseline")
    (printed,) = (result.folder / "work").glob("slurm-*.out")
    assert "rank 1 step 6" in printed.read_text()


@pytest.mark.parametrize(
    ("scenario", "case"),
    [
        soak("baseline", "torch-ddp"),
        soak("killed_rank", "torch-plain"),
        ("killed_rank", "torch-resuming"),
        ("stopped_rank", ""),
        soak("skipped_collective", ""),
        soak("leaky_layer", ""),
        ("torn_checkpoint", "torch-in-place"),
        soak("torn_checkpoint", "torch-aside"),
    ],
)
def test_a_case_of_the_catalogue_gets_the_verdict_of_one_machine(cluster_bench, scenario, case):
    chosen = SCENARIOS[scenario]
    found = next((one for one in chosen.cases if one.name == case), chosen.cases[0])
    plans = [make_plan(chosen, found, Choices(runner=runner)) for runner in ("slurm", "process")]
    there, here = (cluster_bench.run(Request(plan)) for plan in plans)
    assert said(there) == said(here)
    assert not there.verdict.void


def test_a_fault_that_a_node_does_not_let_us_do_is_void_with_the_reason(cluster_bench):
    scenario = SCENARIOS["dropped_link"]
    result = cluster_bench.run(Request(make_plan(scenario, scenario.cases[0], Choices(runner="slurm"))))
    assert result.verdict.outcome is Outcome.VOID
    assert "did not land" in " ".join(result.verdict.void) and "from here" in " ".join(result.verdict.void)


def test_a_partition_that_does_not_exist_is_said_in_one_line(script):
    result, _ = script(f"srun -p nowhere -n 2 -N 2 {sys.executable} train.py", "baseline")
    assert "invalid partition" in " ".join(result.verdict.void).lower()


def test_a_run_directory_that_the_nodes_do_not_see_is_said_in_one_line(script, shared, tmp_path, tmp_path_factory):
    unseen = tmp_path_factory.mktemp("unseen")
    with Bench(unseen / "runs", cold=True) as bench:
        plans = make_script_plans(SCENARIOS["baseline"], SRUN.split(), Choices(deadline_s=200.0))
        result = bench.run(Request(next(iter(plans.values())), where=shared / "job"))
    assert "do not see the run directory" in " ".join(result.verdict.void)
    assert os.environ["SLURM_CONF"]
