"""Commands: those of which the ranks are started here, and those that run as they are."""

from __future__ import annotations

import dataclasses

import pytest

from breakrank import faults
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans, start_once
from breakrank.plan.scenario import Job, Scenario
from breakrank.plan.script import command_line, is_script, rank_cure, run_by_python
from breakrank_agent.protocol.trigger import at


def plan_of(command, *strikes, **choices):
    scenario = Scenario((), Job(steps=0, data=""), strikes, name="test")
    (plan,) = make_script_plans(scenario, command.split(), Choices(**choices)).values()
    return plan


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("python train.py --lr 1", "train.py"),
        ("python3.11 -u train.py", "train.py"),
        ("/usr/bin/python3 -X dev -W error -OO train.py", "train.py"),
        ("python -um shop.train --lr 1", "-m shop.train"),
        ("python -c pass train.py", ""),
        ("python -m torch.distributed.run train.py", ""),
        ("torchrun train.py", ""),
        ("train.py python", ""),
        ("pythonic train.py", ""),
    ],
)
def test_a_command_that_python_runs_is_told_from_a_launcher(command, runs):
    assert run_by_python(command.split()) == runs


def test_a_script_is_named_alone_and_python_runs_as_it_is_given():
    assert is_script(["train.py"]) and not is_script(["python", "train.py"]) and not is_script(["torchrun", "train.py"])
    assert plan_of("train.py").runner == "process"
    assert plan_of("python train.py").runner == "join"
    assert command_line(["python", "-O", "train.py"])[1:] == ["-O", "train.py"]


def test_the_cure_names_the_script_and_torchrun():
    assert rank_cure(["python", "train.py"]).startswith("name it without 'python', as in 'train.py', to have its ranks")
    assert rank_cure(["python", "-m", "shop.train"]) == "use 'torchrun --nproc-per-node=2 -m shop.train'"
    assert rank_cure(["python", "a.py"], started_here=False) == "use 'torchrun --nproc-per-node=2 a.py'"
    assert rank_cure(["torchrun", "train.py"]) == ""


@pytest.mark.parametrize("choices", [{"ranks": 2}, {"restarts": 1}, {"runner": "sandbox"}])
def test_what_python_runs_as_it_is_cannot_be_chosen_here_and_the_cure_is_named(choices):
    with pytest.raises(BreakrankError, match="name it without 'python', as in 'train"):
        plan_of("python train.py", **choices)


def test_a_script_that_starts_its_own_ranks_is_planned_as_a_command_is():
    kill = faults.Kill() @ at(rank="last", step=2)
    here = plan_of("train.py", kill, ranks=4, restarts=2)
    once = start_once(here)
    assert here.strikes[0].ranks == (3,) and once.strikes[0].ranks == ()
    assert (once.runner, once.ranks, once.restarts, once.control) == ("join", 0, 0, "same")
    assert once.command == here.command
    isolated = dataclasses.replace(here, runner="sandbox")
    with pytest.raises(BreakrankError, match="starts its ranks itself"):
        start_once(isolated)
