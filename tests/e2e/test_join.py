"""Ranks of a user's own launcher are joined, struck and judged, and the agent changes nothing in them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path

import jsonschema
import pytest
from support.lasting import soak

from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.plan.script import check_script
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.schemas import schema
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import PlanError, at

SCRIPTS = Path(__file__).parents[1] / "scripts"
TORCHRUN = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node=2"


@pytest.fixture
def launch(bench, tmp_path, monkeypatch):
    """Run a command in a folder with the scripts; return the result and the saved run."""
    # A shell script's `python3` is the one that has torch.
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    for path in [SCRIPTS / "functions.py", SCRIPTS / "plain_loop.py", *(SCRIPTS / "launched").iterdir()]:
        shutil.copy(path, tmp_path)

    def go(command, *strikes, **options):
        result = bench.run(Request(plan_of(command, *strikes), where=tmp_path, **options))
        return result, load_run(result.folder)

    return go


def plan_of(command, *strikes, **choices):
    scenario = Scenario((), Job(steps=0, data="", deadline_s=60.0), strikes, name="join")
    (plan,) = make_script_plans(scenario, command.split(), Choices(**choices)).values()
    return plan


def launched(launch, command, **options):
    """Run a command; again, if torch 2.13 aborted a rank at its exit, as it now and then does without us, too."""
    for _ in range(5):
        result, saved = launch(command, **options)
        if "SIGABRT" not in (result.folder / "launcher.err").read_text():
            break
    return result, saved


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launcher(saved):
    (event,) = saved.history.seen("launcher")
    return event


def printed(result):
    return sorted((result.folder / "launcher.out").read_text().splitlines())


@pytest.mark.soak
def test_under_torchrun_the_agent_changes_nothing(launch, tmp_path):
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    command = f"{TORCHRUN} functions.py"
    (with_agent, saved), (without, bare) = (launched(launch, command, agent=agent) for agent in (True, False))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before, "the user's folder was touched"
    assert printed(with_agent) == printed(without) and len(printed(without)) == 8
    assert (with_agent.folder / "work" / "final.pt").read_bytes() == (without.folder / "work" / "final.pt").read_bytes()
    assert launcher(saved)["status"] == launcher(bare)["status"] == 0
    assert with_agent.verdict.outcome is Outcome.SURVIVED
    assert [(lived.rank, lived.last_step, lived.status) for lived in saved.history.last] == [(0, 4, 0), (1, 4, 0)]


def test_a_killed_rank_under_torchrun_is_reported_by_the_launcher(launch):
    result, saved = launch(f"{TORCHRUN} plain_loop.py", faults.Kill() @ at(rank="last", step=2))
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict.to_json()
    assert result.verdict.blame.ranks == (1,)
    assert launcher(saved)["status"] == 1 and launcher(saved)["blames"] == [1]
    # torchrun waits for its ranks, so that our waitpid sees no death of a rank.
    (landed,) = [e for e in saved.history.seen("strike") if e["phase"] == "landed"]
    assert landed["witness"] == "pidfd: SIGKILL"
    # The number of ranks was learnt from the control, and with it the number of the last rank.
    assert saved.plan.ranks == 2 and saved.plan.strikes[0].ranks == (1,)
    check = jsonschema.Draft202012Validator(schema("conductor"))
    for path in result.folder.rglob("conductor.jsonl"):
        for line in path.read_text().splitlines():
            check.validate(json.loads(line))
    jsonschema.Draft202012Validator(schema("plan")).validate(json.loads((result.folder / "plan.json").read_text()))


@pytest.mark.soak
def test_a_restart_by_the_launcher_is_another_attempt(launch):
    result, saved = launch(f"{TORCHRUN} --max-restarts=1 restored.py fork --die")
    assert saved.history.attempts == [0, 1]
    assert saved.history.ranks[0, 1].report["type"] == "RuntimeError"
    assert [(lived.rank, lived.status) for lived in saved.history.last] == [(0, 0), (1, 0)]
    # Two steps were made before the restart, and were not made again.
    assert [lived.last_step for lived in saved.history.attempt(0)] == [2, 2]
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()


@pytest.mark.parametrize(("fails", "statuses"), [soak("", [0, 0]), (" fails", [None, 1])])
def test_ranks_of_mp_spawn_are_ranks_from_init_process_group_on(launch, tmp_path, fails, statuses):
    result, saved = launched(launch, f"{sys.executable} -u spawned.py {tmp_path}/store{fails}")
    assert [lived.rank for lived in saved.history.last] == [0, 1]
    assert saved.history.ranks[0, 1].status == statuses[1]
    assert saved.history.ranks[0, 1].last_step == (2 if fails else 3)
    if fails:
        assert saved.history.ranks[0, 1].report["type"] == "ValueError"
        assert result.verdict.outcome is Outcome.DETECTED and result.verdict.blame.ranks == (1,)
    else:
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
        assert printed(result) == ["done"]


def test_a_shell_script_starts_ranks_and_what_else_it_starts_is_left_alone(launch):
    result, saved = launch(f"./start.sh {free_port()} restored.py")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    assert printed(result) == ["preparing"]
    # Processes that ran before the ranks, and the ranks' loader workers, are no ranks.
    assert len(saved.history.seen("spawned")) == 2
    assert [lived.last_step for lived in saved.history.last] == [4, 4]


@pytest.mark.soak
def test_a_stopped_rank_is_a_hang_that_its_launcher_does_not_see(launch):
    result, saved = launch(f"./start.sh {free_port()} plain_loop.py", faults.Stop() @ at(rank=1, step=2))
    assert result.verdict.outcome is Outcome.HUNG, result.verdict.to_json()
    assert result.verdict.findings[0].cause == "peer stopped" and result.verdict.blame.ranks == (1,)
    assert launcher(saved)["ended"]


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_an_interpreter_that_cannot_be_entered_is_named(launch, option):
    result, _ = launch(f"{sys.executable} {option} -c __import__('time').sleep(.5)")
    assert result.verdict.outcome is Outcome.VOID
    assert f"runs with {option}, which keeps the agent out" in result.verdict.sentence()


def test_a_program_with_a_rank_that_is_no_python_is_named(launch, tmp_path):
    (tmp_path / "binary.sh").write_text("#!/bin/sh\nRANK=0 WORLD_SIZE=1 sleep 0.5\ntrue\n")
    (tmp_path / "binary.sh").chmod(0o755)
    result, _ = launch("./binary.sh")
    assert result.verdict.outcome is Outcome.VOID
    assert "'sleep' is rank 0 and no Python" in result.verdict.sentence()


def test_a_control_without_ranks_is_named_before_anything_is_struck(launch):
    result, _ = launch("true", faults.Kill() @ at(rank=1, step=2))
    assert result.verdict.outcome is Outcome.VOID
    assert "the control failed: no rank of 'true' called home" in result.verdict.sentence()


def test_a_strange_caller_is_hung_up_on(launch, tmp_path):
    (tmp_path / "intruder.sh").write_text(
        "#!/bin/sh\nBREAKRANK_SECRET=wrong RANK=0 WORLD_SIZE=1 python3 -c 'import torch; print(torch.ones(1).item())'\n"
    )
    (tmp_path / "intruder.sh").chmod(0o755)
    result, saved = launch("./intruder.sh")
    assert printed(result) == ["1.0"] and not saved.history.attempts


@pytest.mark.parametrize("choice", ["ranks", "restarts"])
def test_what_the_launcher_decides_cannot_be_chosen_here(choice):
    with pytest.raises(BreakrankError, match=f"say there, not here, how many {choice}"):
        plan_of("torchrun train.py", **{choice: 2})


def test_a_trigger_of_a_rank_that_the_launcher_does_not_start_is_one_line(launch):
    strike = faults.Kill() @ at(rank=5, step=2)
    with pytest.raises((BreakrankError, PlanError), match="names rank \\[5\\], but the job has ranks 0 to 1"):
        launch(f"./start.sh {free_port()} plain_loop.py", strike)


def test_a_program_that_is_not_there_is_one_line(tmp_path):
    for command in ("no-such-launcher train.py", "./missing.sh"):
        with pytest.raises(BreakrankError, match="neither a Python script nor a program"):
            check_script(command.split(), tmp_path)
