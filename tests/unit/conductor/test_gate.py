"""The turnstile: who may wait for a lock outside of the schedule, and when."""

from __future__ import annotations

from breakrank.conductor.gate import Turnstile, Who
from breakrank_agent.plan import Schedule
from breakrank_agent.schedules import policy


def blocked(*ranks: int) -> Turnstile:
    """Return a turnstile of two ranks, of which some wait for a lock; each has tried again in vain."""
    made = Turnstile([0, 1], policy(Schedule("controlled", "random"), "0"))
    for rank in ranks:
        made.hear(rank, {"blocked": "shared:lock"})
    return made


def test_who_waits_for_a_lock_is_let_out_when_nobody_else_can_move() -> None:
    turnstile = blocked(0, 1)
    assert turnstile.stuck() is not None
    assert turnstile.wait_outside() == Who(0)
    assert turnstile.stuck() is None, "what it waits for may come"
    assert turnstile.wait_outside() is None, "it has not said yet that it waits"
    turnstile.hear(0, {"aside": True})
    assert turnstile.wait_outside() == Who(1)


def test_nobody_is_let_out_while_another_moves_or_may_move() -> None:
    turnstile = blocked(0)
    assert turnstile.wait_outside() is None
    turnstile.hear(1, {"move": ["add", "8:1"]})
    assert turnstile.wait_outside() is None


def test_who_waits_for_a_collective_is_not_let_out() -> None:
    turnstile = blocked()
    for rank in (0, 1):
        turnstile.hear(rank, {"collective": ["barrier", f"group of {rank}", 2]})
    assert turnstile.stuck() is not None
    assert turnstile.wait_outside() is None
