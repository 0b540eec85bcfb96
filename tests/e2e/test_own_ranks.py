"""Scripts that start their ranks themselves are noticed and started once; training outside of all ranks is VOID."""

from __future__ import annotations

import dataclasses
import shutil
import sys

import pytest
from support.lasting import soak
from support.styles import SCRIPTS, plan_of_script

from breakrank.analysis.endings import describe
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Ended, Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


@pytest.fixture
def launch(bench, tmp_path):
    """Run a command in a folder with the scripts; return the result and the saved run."""
    shutil.copytree(SCRIPTS / "own", tmp_path / "own")

    def go(command, *strikes, **options):
        words = command.format(store=tmp_path / "store", python=sys.executable)
        # A rank comes once two processes have imported its framework, one after the other.
        plan = plan_of_script(words, strikes, deadline_s=300.0, **options)
        result = bench.run(Request(plan, where=tmp_path / "own"))
        return result, load_run(result.folder)

    return go


def printed(result):
    return (result.folder / "launcher.out").read_text()


def lived(saved):
    return [(one.rank, one.last_step, one.status) for one in saved.history.last]


@pytest.mark.parametrize(
    ("command", "ranks"), [soak("spawned_world.py --store {store}", 2), ("forked_processes.py {store}", 3)]
)
def test_a_script_that_starts_its_own_ranks_is_started_once(launch, command, ranks):
    result, saved = launch(command)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    assert lived(saved) == [(rank, 3, 0) for rank in range(ranks)]
    assert printed(result) == "done\n", "it ran to its end once"
    assert (
        f"{command.split()[0]} starts its ranks itself: it was started once, and without RANK" in saved.verdict["notes"]
    )


@pytest.mark.soak
def test_a_rank_that_the_script_started_is_struck(launch):
    command = "spawned_world.py --store {store} --world-size=3"
    result, saved = launch(command, faults.Kill() @ at(rank="last", step=2))
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict.to_json()
    assert saved.plan.ranks == 3 and result.verdict.blame.ranks == (2,)


@pytest.mark.soak
def test_processes_that_meet_by_rpc_are_ranks(launch):
    result, saved = launch("remote_model.py {store}")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    # The server has no steps of its own.
    assert lived(saved) == [(0, 4, 0), (1, 0, 0)]


@pytest.mark.parametrize("method", [soak("spawn"), "fork"])
def test_training_in_processes_that_are_no_ranks_is_void_with_that_reason(launch, method):
    result, _ = launch(f"shared_model.py {method}")
    assert result.verdict.outcome is Outcome.VOID
    said = "all training is in 4 processes that ranks 0 and 1 started and that are no ranks (SGD)"
    assert said in result.verdict.void


@pytest.mark.soak
def test_training_in_processes_of_a_command_is_void_with_that_reason(launch):
    result, _ = launch("{python} shared_model.py spawn")
    assert result.verdict.outcome is Outcome.VOID
    assert result.verdict.void[0].endswith("called home: all training is in 2 processes that are no ranks (SGD)")


@pytest.mark.soak
def test_a_script_that_starts_torchrun_is_started_once(launch):
    result, saved = launch("own_launcher.py")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    assert lived(saved) == [(0, 3, 0), (1, 3, 0)]


@pytest.mark.soak
def test_what_a_rank_of_a_script_raised_is_reported_by_that_rank(launch):
    result, saved = launch("spawned_world.py --fails --store {store}")
    assert result.verdict.outcome is Outcome.DETECTED and result.verdict.blame.ranks == (1,), result.verdict.to_json()
    report = saved.history.ranks[0, 1].report
    assert (report["type"], report["message"]) == ("ValueError", "the batch is empty")
    file, line, function = report["frames"][-1]
    assert file.endswith("spawned_world.py") and (line, function) == (21, "work")


def test_a_script_run_by_hand_that_finds_no_rank_is_one_line_with_the_cure(launch):
    result, _ = launch("{python} by_hand.py")
    assert result.verdict.outcome is Outcome.VOID
    said = result.verdict.void[0]
    assert "environment variable RANK expected, but not set" in said and "\n" not in said
    assert "as in 'by_hand.py', to have its ranks started, or use 'torchrun --nproc-per-node=2 by_hand.py'" in said


@pytest.mark.parametrize("way", [soak("loader"), soak("pool"), soak("future"), soak("spawn"), "loader in spawn"])
def test_the_innermost_error_of_another_process_is_the_headline(bench, tmp_path, way):
    shutil.copy(SCRIPTS / "own" / "several_errors.py", tmp_path)
    plan = plan_of_script("several_errors.py", ranks=1)
    plan = dataclasses.replace(plan, command=("several_errors.py", way))
    saved = load_run(bench.run(Request(plan, where=tmp_path)).folder)
    (one,) = saved.history.last
    assert one.report["type"] == "IndexError"
    assert one.report["message"].strip("'\"") == "sample 9 is out of range"
    file, line, _ = one.report["frames"][-1]
    assert file.endswith("several_errors.py") and line in (16, 20)
    assert describe(one, Ended.REPORTED).startswith(
        f"rank 0 reported IndexError: sample 9 is out of range (several_errors.py:{line}), raised in a process that it "
        "had started,"
    )


@pytest.mark.parametrize("command", ["{python} workers.py fork", soak("workers.py spawn")])
def test_workers_of_tensorflow_that_a_script_starts_are_ranks(launch, command):
    result, saved = launch(command)
    assert lived(saved) == [(0, 3, 0), (1, 3, 0)]
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
