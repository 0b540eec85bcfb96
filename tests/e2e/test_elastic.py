"""An elastic job is restarted with those ranks that no signal has ended, and with their numbers closed up."""

from __future__ import annotations

from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


def test_goes_on_without_the_rank_that_was_killed_and_with_those_that_reported_its_loss(run):
    kill = faults.Kill() @ at(rank=1, step=2, point="collective")
    result, saved = run("small:train", kill, ranks=3, restarts=1, elastic=True)
    first, second = (saved.history.attempt(number) for number in (0, 1))
    assert [lived.rank for lived in first] == [0, 1, 2]
    assert [lived.rank for lived in second] == [0, 1] and saved.history.world(1) == 2
    assert all(lived.ended_well for lived in second) and result.verdict.void == ()


def test_is_not_restarted_when_nobody_is_left(run):
    kill = faults.Kill() @ at(rank=0, step=2)
    result, saved = run("small:train", kill, ranks=1, restarts=1, elastic=True)
    assert saved.history.attempts == [0]
    assert result.verdict.outcome is Outcome.VOID


def test_starts_all_ranks_of_the_job_when_a_lost_host_is_back(run):
    kill = faults.Kill() @ at(rank=1, step=2, point="collective")
    back = faults.Rejoin() @ at(rank=0, step=2, attempt=1)
    result, saved = run("small:train", kill, back, ranks=3, restarts=2, elastic=True)
    assert [saved.history.world(number) for number in saved.history.attempts] == [3, 2, 3]
    assert all(lived.ended_well for lived in saved.history.last) and result.verdict.void == ()
