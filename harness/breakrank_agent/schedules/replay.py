"""The moves of a saved run, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank_agent.plan import Schedule
from breakrank_agent.schedules import Diverged


class Policy:
    """Replays the schedule's choices; the seed plays no part."""

    def __init__(self, seed: str, schedule: Schedule) -> None:
        self._choices = schedule.choices

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Return the saved choice. Raises `Diverged` if that one cannot move now, or nothing more was saved."""
        if turn >= len(self._choices):
            raise Diverged(f"the saved run ended after {len(self._choices)} turns, this one goes on")
        choice = self._choices[turn]
        if choice not in candidates:
            raise Diverged(f"turn {turn} was number {choice}'s in the saved run, now only {list(candidates)} can move")
        return choice
