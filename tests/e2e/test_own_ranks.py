"""Scripts that start their ranks themselves are noticed and started once; training outside of all ranks is VOID."""

from __future__ import annotations

import shutil
import sys

import pytest
from support.styles import SCRIPTS, plan_of_script

from breakrank.errors import BreakrankError
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


@pytest.fixture
def launch(bench, tmp_path):
    """Run a command in a folder with the scripts; return the result and the saved run."""
    shutil.copytree(SCRIPTS / "own", tmp_path / "own")

    def go(command, *strikes, **options):
        plan = plan_of_script(command.format(store=tmp_path / "store", python=sys.executable), strikes, **options)
        result = bench.run(Request(plan, where=tmp_path / "own"))
        return result, load_run(result.folder)

    return go


def printed(result):
    return (result.folder / "launcher.out").read_text()


def lived(saved):
    return [(one.rank, one.last_step, one.status) for one in saved.history.last]


@pytest.mark.parametrize(
    ("command", "ranks"), [("spawned_world.py --store {store}", 2), ("forked_processes.py {store}", 3)]
)
def test_a_script_that_starts_its_own_ranks_is_started_once(launch, command, ranks):
    result, saved = launch(command)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.to_json()
    assert lived(saved) == [(rank, 3, 0) for rank in range(ranks)]
    assert printed(result) == "done\n", "it ran to its end once"
    assert (
        f"{command.split()[0]} starts its ranks itself: it was started once, and without RANK" in saved.verdict["notes"]
    )


def test_a_rank_that_the_script_started_is_struck(launch):
    command = "spawned_world.py --store {store} --world-size=3"
    result, saved = launch(command, faults.Kill() @ at(rank="last", step=2))
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict.to_json()
    assert saved.plan.ranks == 3 and result.verdict.blame.ranks == (2,)
