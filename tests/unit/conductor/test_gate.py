"""The gate lets a rank wait for a lock outside of the schedule, if no other rank can move."""

from __future__ import annotations

from breakrank.conductor.gate import Gate, Who
from breakrank_agent.plan import Schedule
from breakrank_agent.schedules import policy


def blocked(*ranks: int) -> Gate:
    """Return a gate of two ranks, of which some wait for a lock; each has tried again in vain."""
    made = Gate([0, 1], policy(Schedule("controlled", "random"), "0"))
    for rank in ranks:
        made.hear(rank, {"blocked": "shared:lock"})
    return made


def test_who_waits_for_a_lock_is_let_out_when_nobody_else_can_move() -> None:
    gate = blocked(0, 1)
    assert gate.stuck() is not None
    assert gate.wait_outside() == Who(0)
    assert gate.stuck() is None, "what it waits for may come"
    assert gate.wait_outside() is None, "it has not said yet that it waits"
    gate.hear(0, {"aside": True})
    assert gate.wait_outside() == Who(1)


def test_nobody_is_let_out_while_another_moves_or_may_move() -> None:
    gate = blocked(0)
    assert gate.wait_outside() is None
    gate.hear(1, {"move": ["add", "8:1"]})
    assert gate.wait_outside() is None


def test_who_waits_for_a_collective_is_not_let_out() -> None:
    gate = blocked()
    for rank in (0, 1):
        gate.hear(rank, {"collective": ["barrier", f"group of {rank}", 2]})
    assert gate.stuck() is not None
    assert gate.wait_outside() is None
