"""Faults of collectives: one rank issues another call than its peers, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload
from breakrank_agent.protocol.trigger import PlanError

#: The properties that can be changed, and the default of each; None: the next value.
CHANGES: dict[str, Any] = {"dtype": "int32", "shape": None, "count": -1, "reduce": "MAX", "root": None}


@dataclass(frozen=True)
class SkipCollective(
    Fault,
    on="collective",
    points=("collective",),
    witness="issued",
    certifies="a collective that one rank does not issue; says nothing about one that it is late for",
):
    """The rank leaves one collective out and goes on, as a branch does that not all ranks take."""

    def strike_inside(self, payload: Payload) -> None:
        """Skip it."""
        payload.collective().skip()


@dataclass(frozen=True)
class SwapCollectives(
    Fault,
    on="collective",
    points=("collective",),
    witness="issued",
    certifies="two collectives in another order; where the rank waits for the first, it gets it late",
):
    """The rank issues one collective after the next one of the same group, as where the order is not fixed."""

    def strike_inside(self, payload: Payload) -> None:
        """Hold it back."""
        payload.collective().swap()


@dataclass(frozen=True)
class ChangeCollective(
    Fault,
    on="collective",
    points=("collective",),
    witness="issued",
    certifies="one collective that is called another way on one rank; says nothing about its values",
):
    """The rank issues one collective another way than its peers.

    `change` is what differs: `dtype` (`to` names one), `shape` (the last two dimensions are transposed), `count` (`to`
    elements more, or fewer), `reduce` (`to` names the reduction), `root` (`to` is a rank of the group, by default the
    next one). The result is put back into the rank's own tensors. Raises `PlanError` for another `change`.
    """

    change: str = "reduce"
    to: Optional[Any] = None

    def __post_init__(self) -> None:
        if self.change not in CHANGES:
            raise PlanError(f"a collective has no {self.change!r} to change; use one of {', '.join(CHANGES)}")

    def strike_inside(self, payload: Payload) -> None:
        """Change it."""
        payload.collective().change(self.change, CHANGES[self.change] if self.to is None else self.to)
