"""Every runner: a sound job survives under it, and a rank that is killed is seen to end."""

from __future__ import annotations

import pytest
from support import containers

from breakrank.doctor import missing
from breakrank.runners import find_runner, offered_runners
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


def under(runner: str) -> dict[str, str]:
    """Return the values of a plan for a runner. Skips where this machine lacks what it needs."""
    if find_runner(runner).has_image:
        return {"runner": runner, "image": containers.require(containers.TORCH)}
    lack = missing(find_runner(runner).needs)
    if lack:
        pytest.skip(f"{runner} {lack}")
    return {"runner": runner}


@pytest.mark.parametrize("runner", offered_runners())
def test_a_sound_job_survives_under_it(run, runner):
    result, saved = run("small:train", **under(runner))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert [lived.status for lived in saved.history.last] == [0, 0]


@pytest.mark.parametrize("runner", offered_runners())
def test_a_kill_lands_under_it(run, runner):
    result, saved = run("small:train", faults.Kill() @ at(rank=1, step=2), **under(runner))
    landed = [(e["rank"], e["witness"]) for e in saved.history.seen("strike") if e["phase"] == "landed"]
    # A rank in a container is no child of ours: its end is read from its pidfd.
    told_by = "pidfd" if find_runner(runner).has_image else "waitpid"
    assert landed == [(1, f"{told_by}: SIGKILL")], result.verdict
    assert saved.history.last[1].status == -9
