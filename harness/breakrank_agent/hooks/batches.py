"""Batches as faults of the data see them, and the iterators that hand them out, whatever the framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from breakrank_agent.agent.model import NoHandles
from breakrank_agent.protocol.payload import Part


class Iterators:
    """Numbers the iterators of a rank, in the order of their first batches."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._count = self._last = 0

    def meet(self, iterator: Any, begins: bool = False) -> dict[str, int]:
        """Return the number of an iterator that hands out a batch; nothing if it is the one of the last batch.

        One that `begins` anew is another.
        """
        number = 0 if begins else self._numbers.get(iterator, 0)
        if not number:
            self._count += 1
            number = self._numbers[iterator] = self._count
        if number == self._last:
            return {}
        self._last = number
        return {"iterator": number}


class Batch(NoHandles):
    """The parts of a batch that is about to be handed out."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def batch(self) -> list[Part]:
        """Return the parts."""
        return [*self._parts]
