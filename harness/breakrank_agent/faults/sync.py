"""Faults of synchronisation: replicas are not kept alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from breakrank_agent.protocol.fault import Fault, Payload


@dataclass(frozen=True)
class LeaveUnsynced(Fault):
    """The wrapper reduces no gradient of one backward pass, as under a `no_sync` that is left on for too long."""

    on: ClassVar[str] = "wrapper"
    points: ClassVar[tuple[str, ...]] = ("forward",)
    certifies: ClassVar[str] = "gradients that stay the rank's own once; says nothing about a reduction that goes wrong"
    witness: ClassVar[str] = "issued"

    def strike_inside(self, payload: Payload) -> None:
        """Switch it off for the forward pass, which decides about the backward pass."""
        payload.wrapper().leave_unsynced()


@dataclass(frozen=True)
class BypassWrapper(Fault):
    """The module inside of the wrapper is called in its place, once."""

    on: ClassVar[str] = "wrapper"
    points: ClassVar[tuple[str, ...]] = ("forward",)
    certifies: ClassVar[str] = "a step of which the wrapper knows nothing; says nothing about one that it half knows of"
    witness: ClassVar[str] = "issued"

    def strike_inside(self, payload: Payload) -> None:
        """Have the forward pass go to what is inside."""
        payload.wrapper().bypass()
