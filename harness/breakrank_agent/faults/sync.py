"""Faults of synchronisation: replicas are not kept alike."""

from __future__ import annotations

from dataclasses import dataclass

from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload


@dataclass(frozen=True)
class LeaveUnsynced(
    Fault,
    on="wrapper",
    points=("forward",),
    witness="issued",
    certifies="gradients that stay the rank's own once; says nothing about a reduction that goes wrong",
):
    """The wrapper reduces no gradient of one backward pass, as under a `no_sync` that is left on for too long."""

    def strike_inside(self, payload: Payload) -> None:
        """Switch it off for the forward pass, which decides about the backward pass."""
        payload.wrapper().leave_unsynced()


@dataclass(frozen=True)
class BypassWrapper(
    Fault,
    on="wrapper",
    points=("forward",),
    witness="issued",
    certifies="a step of which the wrapper knows nothing; says nothing about one that it half knows of",
):
    """The module inside of the wrapper is called in its place, once."""

    def strike_inside(self, payload: Payload) -> None:
        """Have the forward pass go to what is inside."""
        payload.wrapper().bypass()
