"""Scripts of any shape: without an optimizer, with several, failing before their first step, saving once an epoch.

A script differs from a program by its start and its controls. Those of which neither is the point run as programs, in
a process that has imported torch already: `programmed` makes one of their text.
"""

from __future__ import annotations

import textwrap

import pytest
from support.plans import plan_of
from support.styles import plan_of_script

from breakrank import faults
from breakrank.plan.build import Choices
from breakrank.plan.catalogue import load_scenarios
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent.protocol.trigger import at

BEGIN = """\
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
own = torch.Generator().manual_seed(rank)
"""
COLLECTIVES = """
x = torch.ones(4)
for _ in range(4):
    dist.all_reduce(x)
"""
EVALUATION = """
module, right = nn.Linear(8, 1).eval(), torch.zeros(1)
with torch.no_grad():
    for _ in range(3):
        right += (module(torch.randn(4, 8)) > 0).sum()
dist.all_reduce(right)
"""
#: Each rank trains by itself, with an update by hand; a round ends with the average.
FEDERATED = """
module = nn.Linear(8, 1)
for _ in range(2):
    for _ in range(3):
        module.zero_grad()
        module(torch.randn(16, 8, generator=own)).pow(2).mean().backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.1 * parameter.grad
    for parameter in module.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= world
"""
#: The first stage updates by hand what the second one has an optimizer for.
STAGES = """
module = nn.Linear(8, 8 if rank == 0 else 1)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1) if rank else None
for _ in range(3):
    if rank == 0:
        sent = module(torch.randn(4, 8))
        dist.send(sent.detach(), 1)
        gradient = torch.empty_like(sent)
        dist.recv(gradient, 1)
        sent.backward(gradient)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    else:
        received = torch.empty(4, 8)
        dist.recv(received, 0)
        received.requires_grad_()
        optimizer.zero_grad()
        module(received).pow(2).mean().backward()
        dist.send(received.grad, 0)
        optimizer.step()
"""
FAILING = """
dist.all_reduce(torch.ones(1))
if rank == 1:
    raise RuntimeError("no such data set")
dist.barrier()
"""
CRASHING = """
import ctypes

dist.all_reduce(torch.ones(1))
if rank == 1:
    ctypes.string_at(0)
dist.barrier()
"""
#: The second optimizer's module is wrapped only with --fixed.
TWO = """
first, second = DDP(nn.Linear(8, 8)), nn.Linear(8, 1)
if "--fixed" in sys.argv:
    second = DDP(second)
optimizers = [torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.SGD(second.parameters(), lr=0.1)]
for _ in range(4):
    x = torch.randn(16, 8, generator=own)
    for optimizer in optimizers:
        optimizer.zero_grad()
    second(first(x)).pow(2).mean().backward()
    for optimizer in optimizers:
        optimizer.step()
"""
#: Rank 0 saves at the end of an epoch of three steps.
SAVING = """
module = DDP(nn.Linear(64, 64))
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    module(torch.randn(4, 64, generator=own)).pow(2).mean().backward()
    optimizer.step()
    if step % 3 == 2 and rank == 0:
        torch.save(module.state_dict(), f"epoch-{step // 3}.pt")
"""
SKIPPING = """
module = DDP(nn.Linear(8, 4))
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    module(torch.randn(4, 8, generator=own)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
SHARDED = """
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

module = nn.Sequential(nn.Linear(8, 9), nn.Linear(9, 3))
if world > 1 and "flat" in sys.argv:
    module = FullyShardedDataParallel(module, device_id=torch.device("cpu"))
elif world > 1:
    fully_shard(module, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (world,)))
optimizer, all_of_it = torch.optim.SGD(module.parameters(), lr=0.1), torch.Generator().manual_seed(7)
for step in range(4):
    x = torch.randn(8, 8, generator=all_of_it)[rank::world]
    optimizer.zero_grad()
    module(x).pow(2).mean().backward()
    if "--bug" in sys.argv and rank == 1 and step == 2:
        for parameter in module.parameters():
            getattr(parameter.grad, "_local_tensor", parameter.grad).mul_(3)
    optimizer.step()
"""


@pytest.fixture
def write(bench, tmp_path):
    """Run a script of this text under a plan; return the result and the saved run."""

    def go(text, *strikes, command="shape.py", begin=BEGIN):
        (tmp_path / "shape.py").write_text(begin + text)
        result = bench.run(Request(plan_of_script(command, list(strikes)), where=tmp_path))
        return result, load_run(result.folder)

    return go


@pytest.fixture
def programmed(bench, tmp_path):
    """Run a program of this text under a plan; return the result and the saved run."""

    def go(text, *strikes, **values):
        whole = textwrap.indent(BEGIN + text, "    ")
        (tmp_path / "shape.py").write_text(f"def main():\n{whole}")
        plan = plan_of("shape:main", *strikes, steps=0, data="", deadline_s=60.0, **values)
        result = bench.run(Request(plan, programs=tmp_path))
        return result, load_run(result.folder)

    return go


@pytest.fixture
def launch(bench, tmp_path):
    """Run a script of this text under a scenario of the catalogue; return the result and the saved run."""

    def go(text, scenario, command="shape.py", **choices):
        (tmp_path / "shape.py").write_text(BEGIN + text)
        (plan,) = make_script_plans(load_scenarios()[scenario], command.split(), Choices(**choices)).values()
        result = bench.run(Request(plan, where=tmp_path))
        return result, load_run(result.folder)

    return go


@pytest.mark.parametrize("text", [COLLECTIVES, EVALUATION, FEDERATED, STAGES], ids=["reduce", "eval", "fed", "stages"])
def test_a_job_without_an_optimizer_is_judged_by_what_it_does(programmed, text):
    result, _ = programmed(text)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


@pytest.mark.soak
@pytest.mark.parametrize("text", [EVALUATION, FEDERATED, STAGES], ids=["eval", "fed", "stages"])
def test_as_a_script_it_is_judged_by_the_same(write, text):
    result, _ = write(text)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


@pytest.mark.soak
def test_the_second_save_of_a_script_is_struck(write):
    result, saved = write(SAVING, faults.Kill() @ at(rank=0, point="save", visit=2))
    (fired,) = [e for e in saved.history.ranks[0, 0].of_kind("strike") if e["phase"] == "fired"]
    assert (fired["step"], fired["point"], fired["visit"]) == (6, "save", 1)
    assert result.verdict.outcome is not Outcome.VOID, result.verdict


@pytest.mark.soak
@pytest.mark.parametrize("bug", [False, True], ids=["sound", "broken"])
def test_shards_of_a_script_are_compared_with_its_reference(launch, bug):
    command = f"shape.py sharded{' --bug' if bug else ''}"
    result, _ = launch(SHARDED, "baseline", command=command, reference=("shape.py",))
    assert [finding.cause for finding in result.verdict.findings[:1]] == ["reference mismatch"] * bug


def test_what_modules_are_left_with_is_compared_where_nothing_trains(programmed):
    # Modules are found by the variables of a module, as a script's are.
    result, saved = programmed(
        f"\nglobal module\n{FEDERATED}", faults.Placebo() @ at(rank=1, point="collective", visit=2)
    )
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert "control" not in result.verdict.abstained
    ends = [[lived.end["modules"] for lived in side.last] for side in (saved.history, saved.control)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        (FAILING, Outcome.DETECTED, "rank 1 reported RuntimeError: no such data set ("),
        (CRASHING, Outcome.CRASHED, "rank 1 died of SIGSEGV before the first step"),
    ],
    ids=["raises", "crashes"],
)
def test_a_failure_before_the_first_step_is_judged(programmed, text, outcome, words):
    result, _ = programmed(text)
    assert result.verdict.outcome is outcome, result.verdict
    assert result.verdict.sentence().startswith(words) and "before the first step" in result.verdict.sentence()
    assert result.verdict.blame.ranks == (1,)


def test_a_script_that_failed_before_a_strike_had_no_control(write):
    result, _ = write(FAILING, faults.Kill() @ at(rank=0, step=3))
    assert result.verdict.outcome is Outcome.VOID
    assert result.verdict.sentence().startswith("the control failed: rank")


def test_the_second_save_of_the_run_is_struck(programmed):
    result, saved = programmed(SAVING, faults.Kill() @ at(rank=0, point="save", visit=2))
    (fired,) = [e for e in saved.history.ranks[0, 0].of_kind("strike") if e["phase"] == "fired"]
    assert (fired["step"], fired["point"], fired["visit"]) == (6, "save", 1)
    assert result.verdict.outcome is not Outcome.VOID, result.verdict


def test_a_save_that_never_comes_is_named_with_those_that_do(programmed):
    result, _ = programmed(SAVING, faults.Kill() @ at(rank=0, point="save", visit=3))
    assert result.verdict.outcome is Outcome.VOID
    assert "3rd save of the run) never fired: rank 0 has" in result.verdict.sentence()
    assert "save (2 visits)" in result.verdict.sentence()


@pytest.mark.soak
def test_a_scenario_that_strikes_saves_does_so_where_a_script_saves_once_an_epoch(launch):
    result, saved = launch(SAVING, "torn_checkpoint")
    (fired,) = [e for e in saved.history.ranks[0, 0].of_kind("strike") if e["phase"] == "fired"]
    assert (fired["step"], fired["point"]) == (3, "save")
    assert result.verdict.outcome is not Outcome.VOID, result.verdict


@pytest.mark.soak
def test_a_rank_that_a_strike_made_come_first_ends_as_in_a_job_of_so_many_steps(launch):
    kinds = set()
    for steps in (None, 2):
        result, saved = launch(SKIPPING, "skipped_collective", steps=steps)
        finding = result.verdict.findings[0]
        kinds.add((result.verdict.outcome, finding.cause, finding.ranks, finding.step))
    assert kinds == {(Outcome.SILENT, "wrong result", (1,), 3)}
    assert [(e["rank"], e["on"]) for e in saved.history.seen("held")] == [(1, False)]
    assert not saved.control.seen("held")


def test_the_parameters_of_every_optimizer_are_looked_at(programmed):
    result, _ = programmed(TWO)
    finding = result.verdict.findings[0]
    assert (result.verdict.outcome, finding.cause, finding.ranks) == (Outcome.SILENT, "module not wrapped", (0, 1))
    assert finding.evidence["parameters"] == ["weight of Linear (optimizer 2)", "bias of Linear (optimizer 2)"]


def test_two_optimizers_whose_modules_are_both_wrapped_are_sound(programmed):
    result, _ = programmed(TWO.replace("sys.argv", "['--fixed']"))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


@pytest.mark.parametrize("kind", ["flat", "sharded"])
@pytest.mark.parametrize("bug", [False, True], ids=["sound", "broken"])
def test_shards_are_put_together_to_be_compared_with_one_rank(programmed, kind, bug):
    said = SHARDED.replace("sys.argv", repr([kind, "--bug"] if bug else [kind]))
    result, _ = programmed(said, oracles=(*DEFAULT_ORACLES, "reference"))
    if not bug:
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
        assert "reference" not in result.verdict.abstained
    else:
        finding = result.verdict.findings[0]
        assert (finding.cause, finding.ranks, finding.step) == ("reference mismatch", (0, 1), 3)
