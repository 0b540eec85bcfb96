"""When a strike has landed and when it has missed, on a clock of the test's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from plans import plan_of

from breakrank import strikes
from breakrank.runners.view import View
from breakrank.witness import Witness
from breakrank_agent import faults
from breakrank_agent.plan import at


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def struck(monkeypatch, tmp_path):
    """Return what lets time pass and gives the phases that were written, of a strike that takes a minute to be made.

    Its witness sees it the number of times later that it is given.
    """

    def begin(seen_at_look):
        clock, looks, phases = Clock(), [], []
        monkeypatch.setattr(strikes, "time", clock)
        monkeypatch.setattr(faults.CutLink, "strike", lambda self, target: setattr(clock, "now", clock.now + 60))
        witness = Witness(
            judge=lambda fault, evidence: "it was seen" if evidence.after == seen_at_look else None,
            look=lambda fault, target: looks.append(0) or len(looks) - 1,
        )
        monkeypatch.setattr(strikes, "WITNESSES", {faults.CutLink.witness: witness})
        plan = plan_of("small:train", faults.CutLink() @ at(rank=1, step=2, point="collective"))
        one = strikes.Strikes(plan, 0, None, View(tmp_path), lambda kind, **event: phases.append(event["phase"]))
        one.started(SimpleNamespace(rank=1, pid=1, store=0, walls=None))
        one.park(1, 0)

        def after(seconds):
            clock.now += seconds
            one.advance()
            return phases

        return after

    return begin


def test_a_strike_that_takes_long_to_be_made_has_its_time_to_be_seen_afterwards(struck):
    after = struck(seen_at_look=2)
    assert after(0) == []
    assert after(strikes.CONFIRM_S / 2) == ["landed"]


def test_what_nobody_sees_in_that_time_has_missed(struck):
    after = struck(seen_at_look=99)
    assert after(0) == []
    assert after(strikes.CONFIRM_S * 2) == ["missed"]
