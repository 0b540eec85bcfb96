"""Choose among all that can move, with equal chance, drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from breakrank_agent.plan import Schedule


class Policy:
    """The random walk over schedules: simple, and on short programs better than cleverer searches."""

    def __init__(self, seed: str, schedule: Schedule) -> None:
        self._draw = random.Random(seed)

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Draw one of the candidates."""
        return self._draw.choice(candidates)
