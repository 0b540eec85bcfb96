"""Probabilistic concurrency testing: the highest priority moves, and priorities change at a few points only.

Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs",
ASPLOS 2010. A defect that needs d ordering constraints is met, in a run of n threads and k moves, with a chance of at
least 1 / (n × k^(d-1)), which a random walk over long programs does not promise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from breakrank_agent.plan import Schedule


class Policy:
    """Priorities drawn from the seed; `schedule.depth` is the paper's d, `schedule.length` its k."""

    def __init__(self, seed: str, schedule: Schedule) -> None:
        self._draw = random.Random(seed)
        #: From the highest priority to the lowest.
        self._order: list[int] = []
        changes = min(max(schedule.depth - 1, 0), schedule.length)
        self._changes = frozenset(self._draw.sample(range(schedule.length), changes))
        #: Those whose priority a change point has lowered stand last, in the order of their fall.
        self._fallen: list[int] = []

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Return the candidate of the highest priority, after it has fallen if this turn is a change point."""
        for newcomer in candidates:
            if newcomer not in self._order and newcomer not in self._fallen:
                self._order.insert(self._draw.randint(0, len(self._order)), newcomer)
        if turn in self._changes:
            self._fall(self._first(candidates))
        return self._first(candidates)

    def _first(self, candidates: Sequence[int]) -> int:
        return next(one for one in (*self._order, *self._fallen) if one in candidates)

    def _fall(self, one: int) -> None:
        for order in (self._order, self._fallen):
            if one in order:
                order.remove(one)
        self._fallen.append(one)
