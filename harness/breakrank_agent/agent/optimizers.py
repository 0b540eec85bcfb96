"""Optimizers: those of a rank that have stepped, in the order of their first steps."""

from __future__ import annotations

import weakref
from typing import Any


class Optimizers:
    """The optimizers that have stepped. The first counts the steps, and is never let go; the others may be."""

    def __init__(self) -> None:
        self.first: Any = None
        #: A program may make new ones as it goes: those that it has let go are not ours to keep.
        self._others: list[weakref.ref[Any]] = []
        #: Those that were there when a step ended: they are not let go before the end is on record.
        self._kept: list[Any] = []

    def take(self, optimizer: Any) -> bool:
        """Take in an optimizer that is about to step; return whether it is the first."""
        if self.first is None:
            self.first = optimizer
            return True
        if optimizer is not self.first and not any(known() is optimizer for known in self._others):
            self._others.append(weakref.ref(optimizer))
        return False

    def keep(self) -> None:
        """Hold on to those that are there at the end of a step."""
        if not self._others and not self._kept:
            return
        self._others = [known for known in self._others if known() is not None]
        self._kept = [known() for known in self._others]

    def all(self) -> list[Any]:
        """Return those that are there."""
        others = (known() for known in self._others)
        return [one for one in (self.first, *others) if one is not None]
