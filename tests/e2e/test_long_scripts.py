"""Scripts that would run for long are ended after as many steps as were asked for, for each kind of step."""

from __future__ import annotations

import os
import sys

import pytest

from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.plan.script import check_step
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

FOR_EVER = """\
import torch
import torch.distributed as dist

def train_batch():
    for _ in range(2):
        optimizer.zero_grad()
        (weight * torch.randn(4)).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()

dist.init_process_group("gloo")
torch.manual_seed(1)
weight = torch.randn(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
while True:
    train_batch()
"""
#: The same without an optimizer, whose first step takes as long as a second import of torch.
BY_HAND = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(1)
weight = torch.randn(4, requires_grad=True)
while True:
    weight.grad = None
    (weight * torch.randn(4)).sum().backward()
    dist.all_reduce(weight.grad)
    weight.data -= 0.1 * weight.grad
"""
#: This script ends by its data: it trains until it has seen a certain sum of the labels.
UNTIL_ALL_IS_SEEN = """\
import itertools
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
weight = torch.ones(2, requires_grad=True)
seen = torch.zeros(1)
for x, y in itertools.chain.from_iterable(itertools.repeat(DataLoader(TensorDataset(torch.ones(3, 2), torch.ones(3))))):
    weight.grad = None
    (weight * x).sum().backward()
    weight.data -= 0.1 * weight.grad
    seen += y
    total = seen.clone()
    dist.all_reduce(total)
    if total.item() == 6:
        break
dist.destroy_process_group()
"""
#: Rank 0 makes two steps where rank 1 makes one.
UNLIKE = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
while True:
    weight.sum().backward()
    dist.all_reduce(weight.grad)
    for _ in range(2 - dist.get_rank()):
        optimizer.step()
"""


@pytest.fixture
def launch(bench, tmp_path, monkeypatch):
    """Run a script of this text; return the result and the saved run."""
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))

    def go(text, *strikes, command="script.py", **choices):
        (tmp_path / "script.py").write_text(text)
        scenario = Scenario((), Job(steps=0, data="", deadline_s=60.0), strikes, name="long")
        (plan,) = make_script_plans(scenario, command.split(), Choices(**choices)).values()
        result = bench.run(Request(plan, where=tmp_path))
        return result, load_run(result.folder)

    return go


@pytest.mark.soak
def test_under_a_launcher_a_script_ends_so_many_steps_after_the_last_strike(launch):
    command = "torchrun --standalone --nproc-per-node=2 script.py"
    result, saved = launch(BY_HAND, faults.Kill() @ at(rank=1, step=3), command=command, steps=2)
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict.to_json()
    for control in (saved.control, saved.second):
        assert [(lived.last_step, lived.ended_well, lived.status) for lived in control.last] == [(5, True, 0)] * 2
        assert [lived.end["how"] for lived in control.last] == ["steps", "steps"]
        (launcher,) = control.seen("launcher")
        assert (launcher["status"], launcher["ended"]) == (0, False)


@pytest.mark.parametrize("step", ["script:train_batch"])
def test_a_step_ends_when_the_function_returns_that_was_named(launch, step):
    result, saved = launch(FOR_EVER, steps=3, step=step)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    for lived in saved.history.last:
        assert [e["steps_by"] for e in lived.of_kind("note") if "steps_by" in e] == [step]
        # An optimizer stepped twice in each step.
        assert [e["step"] for e in lived.points("optimize")] == [1, 1, 2, 2, 3, 3]
        assert lived.last_step == 3


def test_a_function_that_never_returns_is_no_step(launch):
    result, _ = launch("import torch\n", step="torch:nowhere", ranks=1)
    assert result.verdict.outcome is Outcome.VOID
    assert "nothing was seen: torch:nowhere never returned" in result.verdict.sentence()


def test_a_script_that_does_not_end_when_struck_is_ended_at_ten_times_its_controls_steps(launch):
    result, saved = launch(UNTIL_ALL_IS_SEEN, faults.ShiftLabels() @ at(rank=1, step=2, point="load"))
    assert result.verdict.outcome is Outcome.HUNG, result.verdict.to_json()
    (finding,) = [f for f in result.verdict.findings if f.cause == "endless training"]
    # The rank whose record was read last may be the one that came to it; the finding names the other's step.
    assert finding.evidence["expected"] == 3 and max(lived.last_step for lived in saved.history.last) > 30
    assert [lived.last_step for lived in saved.control.last] == [3, 3]


def test_a_rank_that_counts_steps_otherwise_goes_on_until_the_others_have_made_theirs(launch):
    result, saved = launch(UNLIKE, steps=4)
    assert any("rank 0 had made its 4 steps while rank 1 waited for it, and went on" in n for n in result.verdict.notes)
    assert [lived.last_step for lived in saved.history.last] == [7, 4]
    assert [(lived.ended_well, lived.end["how"]) for lived in saved.history.last] == [(True, "steps")] * 2


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("train_batch", "give the function whose return ends a step"),
        ("script:", "give the function whose return ends a step"),
        ("script:train batch", "give the function whose return ends a step"),
        ("script:nowhere", "script.py has no function nowhere"),
        ("__main__:nowhere", "script.py has no function nowhere"),
    ],
)
def test_what_can_end_no_step_is_one_line(tmp_path, step, words):
    (tmp_path / "script.py").write_text(FOR_EVER)
    with pytest.raises(BreakrankError, match=words):
        check_step(step, ["torchrun", "script.py"], tmp_path)
    check_step("script:train_batch", ["script.py"], tmp_path)
    check_step("elsewhere.engine:Engine.step", ["script.py"], tmp_path)
