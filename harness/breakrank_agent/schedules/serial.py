"""Keep the one that moves until it has to wait: the control of a script that is run under a schedule."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank_agent.plan import Schedule


class Policy:
    """Changes over only where it must, to the lowest number; the seed plays no part."""

    def __init__(self, seed: str, schedule: Schedule) -> None:
        self._moving = -1

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Return the one that moved last, or the first candidate."""
        if self._moving not in candidates:
            self._moving = candidates[0]
        return self._moving
