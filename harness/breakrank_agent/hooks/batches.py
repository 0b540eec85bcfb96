"""A batch as faults of the data see it, whatever the framework."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank_agent.agent.agent import NoHandles
from breakrank_agent.protocol.payload import Part


class Batch(NoHandles):
    """The parts of a batch that is about to be handed out."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def batch(self) -> list[Part]:
        """Return the parts."""
        return [*self._parts]
