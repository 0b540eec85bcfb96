"""A strike lands or misses by the observations of its witness, on a clock of the test's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.plans import plan_of

from breakrank.conductor import reach, strikes
from breakrank.runners.workdir import View
from breakrank.witnesses import CONFIRM_S, Evidence, Witness
from breakrank.witnesses.cluster import Limit, Warned
from breakrank.witnesses.network import Arrivals, Damaged
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def struck(monkeypatch, tmp_path):
    """Return a function that lets time pass and returns the written phases of a strike that takes a minute to be made.

    The witness sees the strike at the look with the given number.
    """

    def begin(seen_at_look):
        clock, looks, phases = Clock(), [], []
        monkeypatch.setattr(strikes, "time", clock)
        monkeypatch.setattr(faults.CutLink, "strike", lambda self, target: setattr(clock, "now", clock.now + 60))

        class SeenLate(Witness[int]):
            """A witness that sees the strike at a given look."""

            def look(self, fault, target):
                return looks.append(0) or len(looks) - 1

            def judge(self, fault, evidence):
                return "it was seen" if evidence.after == seen_at_look else None

        for module in (strikes, reach):
            monkeypatch.setattr(module, "witness_of", lambda fault: SeenLate())
        plan = plan_of("small:train", faults.CutLink() @ at(rank=1, step=2, point="collective"))
        one = strikes.Strikes(plan, 0, None, View(tmp_path), lambda kind, **event: phases.append(event["phase"]))
        one.started(SimpleNamespace(rank=1, pid=1, store=0, walls=None))
        one.park(1, 0)

        def after(seconds):
            clock.now += seconds
            one.advance()
            return phases

        after.all = one
        return after

    return begin


def test_a_strike_that_takes_long_to_be_made_has_its_time_to_be_seen_afterwards(struck):
    after = struck(seen_at_look=2)
    assert after(0) == []
    assert after(CONFIRM_S / 2) == ["landed"]


def test_what_nobody_sees_in_that_time_has_missed(struck):
    after = struck(seen_at_look=99)
    assert after(0) == []
    assert after(CONFIRM_S * 2) == ["missed"]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            Arrivals(48, damaged=0, earlier=0),
            Arrivals(36, damaged=12, earlier=0),
            "the peer's kernel: 12 datagrams with a wrong",
        ),
        # A container's network has seen the last run, too.
        (
            Arrivals(48, damaged=12, earlier=12),
            Arrivals(36, damaged=24, earlier=12),
            "the peer's kernel: 12 datagrams with a",
        ),
        (Arrivals(48, damaged=12, earlier=12), Arrivals(48, damaged=12, earlier=12), ""),
        # These datagrams were damaged before the strike.
        (Arrivals(40, damaged=8, earlier=0), Arrivals(36, damaged=20, earlier=8), ""),
    ],
)
def test_damage_is_seen_where_there_is_more_of_it_than_before(before, after, says):
    said = Damaged().judge(faults.DamagePackets(), Evidence(before=before, after=after)) or ""
    assert said.startswith(says) and bool(said) == bool(says)


@pytest.mark.parametrize("seen_at_look", [2, 99])
def test_a_heal_that_fails_is_told_also_of_a_strike_that_nobody_saw(struck, monkeypatch, seen_at_look):
    def take(self, target):
        target.kept["taken"] = True

    def fail(self, target):
        raise OSError("it cannot be put back")

    after = struck(seen_at_look)
    monkeypatch.setattr(faults.CutLink, "strike", take)
    monkeypatch.setattr(faults.CutLink, "heal", fail)
    phases = after(CONFIRM_S / 2)
    assert after(CONFIRM_S * 2) == ["landed" if seen_at_look == 2 else "missed"]
    after.all.heal()
    assert phases[1:] == ["unhealed"]


class StepOfTwo:
    """A step whose signals come to both of its ranks, and what was asked of its controller."""

    def __init__(self):
        self.orders, self.waiting = [], {0: False, 1: False}

    def of(self, rank):
        def run(*command):
            self.orders.append(command[1].partition("=")[2])
            self.waiting = {rank: True for rank in self.waiting}

        return SimpleNamespace(step=lambda: "7.0", run=run, pending=lambda number: "caught" * self.waiting[rank])


def test_ranks_that_a_cluster_strikes_are_seen_before_and_go_on_together(monkeypatch, tmp_path):
    step, phases = StepOfTwo(), []
    monkeypatch.setattr(strikes, "task_of", lambda pid: step.of(pid))
    plan = plan_of("small:train", faults.SignalStep() @ at(rank="all", step=2, point="backward"), runner="slurm")

    def say(kind, **event):
        phases.append((event["rank"], event["phase"]))

    both = strikes.Strikes(plan, 0, None, View(tmp_path), say)
    for rank in (0, 1):
        both.started(SimpleNamespace(rank=rank, pid=rank, store=0, walls=None))
        both.park(rank, 0)
    assert both.advance() == [0, 1]
    assert phases == [(0, "act"), (0, "landed"), (1, "act"), (1, "landed")]
    assert step.orders == ["STOP", "USR1"] * 2 + ["CONT"] * 2


@pytest.mark.parametrize(
    ("earlier", "after", "lands"),
    [
        (Limit(True, ""), Limit(False, "2026-11-30T12:00:00"), True),
        (Limit(True, ""), Limit(True, ""), False),
        # It goes on, and its limit is as it was.
        (Limit(True, ""), Limit(False, "2026-11-30T13:00:00"), False),
        (Limit(False, ""), Limit(False, "2026-11-30T12:00:00"), False),
    ],
)
def test_a_step_was_warned_if_its_limit_came_near_and_it_was_let_go_on(earlier, after, lands):
    evidence = Evidence(before=Limit(False, "2026-11-30T13:00:00"), earlier=earlier, after=after)
    assert bool(Warned().judge(faults.NearTimeLimit(), evidence)) == lands
