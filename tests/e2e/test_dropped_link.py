"""A link between two ranks is cut, once or for good: both ends report it, and the kernel's connections show it."""

from __future__ import annotations

import pytest

from breakrank.doctor import missing
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

pytestmark = pytest.mark.skipif(bool(missing(faults.DropLink.needs)), reason=missing(faults.DropLink.needs))

REDUCTION = at(rank=1, step=2, point="collective")


def landed(saved):
    """Return (attempt, rank) for each time that a strike landed."""
    return [(e["attempt"], e["rank"]) for e in saved.history.seen("strike") if e["phase"] == "landed"]


def test_both_ends_of_a_cut_link_report_it_and_neither_is_blamed(run):
    result, saved = run("small:train", faults.DropLink() @ REDUCTION)
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict
    assert [lived.report["type"] for lived in saved.history.last] == ["RuntimeError", "RuntimeError"]
    assert [lived.last_step for lived in saved.history.last] == [1, 1]
    assert result.verdict.blame.ranks == ()
    assert result.verdict.blame.reason.startswith("the link between ranks 0 and 1: ")


def test_only_the_link_to_the_peer_is_cut(run):
    result, saved = run("small:train", faults.DropLink(peer=2) @ REDUCTION, ranks=3)
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict
    (event,) = [e for e in saved.history.seen("strike") if e["phase"] == "landed"]
    assert event["witness"].startswith("the kernel: 1 established before, now ")


def test_a_new_group_has_new_connections_and_the_store_was_left_alone(run):
    result, saved = run("small:regroups", faults.DropLink() @ REDUCTION)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert landed(saved) == [(0, 1)]


def test_for_good_new_connections_are_cut_too(run):
    result, saved = run("small:regroups", faults.DropLink(lasting=True) @ REDUCTION)
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict
    # The number of cuts until the program gives up depends on the number of connections that the new group has by then.
    assert set(landed(saved)) == {(0, 1)} and len(landed(saved)) >= 2


@pytest.mark.parametrize(("lasting", "outcome", "times"), [
    (False, Outcome.SURVIVED, [(0, 1)]),
    (True, Outcome.DETECTED, [(0, 1), (1, 1)]),
])  # fmt: skip
def test_a_new_start_meets_the_cut_again_only_if_it_is_for_good(run, lasting, outcome, times):
    result, saved = run("small:train", faults.DropLink(lasting=lasting) @ REDUCTION, restarts=1)
    assert result.verdict.outcome is outcome, result.verdict
    assert landed(saved) == times


def test_a_rank_has_no_link_to_itself_and_the_strike_is_void(run):
    result, saved = run("small:train", faults.DropLink(peer=1) @ REDUCTION)
    assert result.verdict.outcome is Outcome.VOID
    assert "there is no connection between rank 1 and rank 1" in result.verdict.sentence()
    assert [lived.status for lived in saved.history.last] == [0, 0]


@pytest.mark.soak
def test_a_link_that_a_stand_in_leaves_alone_is_void_for_good_as_for_once(run, monkeypatch):
    monkeypatch.setattr(faults.DropLink, "strike", lambda self, target: None)
    for lasting in (False, True):
        result, saved = run("small:train", faults.DropLink(lasting=lasting) @ REDUCTION)
        assert result.verdict.outcome is Outcome.VOID
        assert landed(saved) == []
