"""Any rank that can move may move next, with equal chance, drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence


class Policy:
    """The random walk over schedules: simple, and on short programs better than cleverer searches."""

    def __init__(self, seed: int, choices: Sequence[int] = ()) -> None:
        self._draw = random.Random(seed)

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Draw one of the candidates."""
        return self._draw.choice(candidates)
