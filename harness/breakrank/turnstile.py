"""The turnstile of a controlled schedule: ranks come to it before each move, and one at a time passes.

It is a pure state machine: the Conductor tells it what ranks ask, and asks it who may go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from breakrank.schedules import Policy


@dataclass
class _Place:
    """What one rank is doing: running, or waiting for a turn (move), a lock (blocked) or its peers (collective)."""

    doing: str = "running"
    what: str = ""
    key: str = ""
    size: int = 0


@dataclass
class Turnstile:
    """Who waits for what. `turn` counts the moves from 0."""

    ranks: list[int]
    policy: Policy
    turn: int = 0
    _places: dict[int, _Place] = field(default_factory=dict)
    _freed: set[str] = field(default_factory=set)
    _tried: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._places = {rank: _Place() for rank in self.ranks}

    def hear(self, rank: int, message: dict[str, Any]) -> None:
        """Take what a rank says: `move`, `blocked`, `unlocked` or `collective`."""
        if "move" in message:
            what, key = message["move"]
            self._places[rank] = _Place("move", what, key)
        elif "blocked" in message:
            self._places[rank] = _Place("blocked", "lock", message["blocked"])
            self._freed.discard(message["blocked"])
            self._tried.add(rank)
        elif "collective" in message:
            what, group, size = message["collective"]
            self._places[rank] = _Place("collective", what, group, size)
        elif "unlocked" in message:
            self._freed.add(message["unlocked"])
        if "blocked" not in message:
            self._tried.clear()

    def gone(self, rank: int) -> None:
        """A rank has ended: its locks are free."""
        self._places.pop(rank, None)
        self._tried.clear()
        self._freed.update(p.key for p in self._places.values() if p.doing == "blocked")

    def next(self) -> tuple[list[int], dict[str, Any] | None]:
        """Return the ranks that may go on now, and the turn that was taken for it, if it was a choice.

        Nobody may while a rank is still running. A collective lets all its members go on together as soon as the last
        one has come. Raises `Diverged` from a replayed schedule.
        """
        if any(p.doing == "running" for p in self._places.values()):
            return [], None
        together = self._full_collective()
        if together:
            for rank in together:
                self._places[rank] = _Place()
            return together, None
        candidates = self._candidates()
        if not candidates:
            return [], None
        rank = self.policy.choose(candidates, self.turn)
        place = self._places[rank]
        taken = {"turn": self.turn, "rank": rank, "op": place.what, "key": place.key}
        self.turn += 1
        self._places[rank] = _Place()
        return [rank], taken

    def stuck(self) -> dict[int, str] | None:
        """Return what each rank waits for if none of them can ever go on, else None."""
        if not self._places or any(p.doing == "running" for p in self._places.values()):
            return None
        if self._full_collective() or self._candidates():
            return None
        return {rank: f"{p.what} {p.key}".strip() for rank, p in self._places.items()}

    def _full_collective(self) -> list[int]:
        for place in self._places.values():
            if place.doing == "collective":
                members = [r for r, p in self._places.items() if p.doing == "collective" and p.key == place.key]
                if len(members) == place.size:
                    return members
        return []

    def _candidates(self) -> list[int]:
        blocked = {rank: p for rank, p in self._places.items() if p.doing == "blocked"}
        free = [rank for rank, p in self._places.items() if p.doing == "move"]
        free += [rank for rank, p in blocked.items() if p.key in self._freed]
        # A lock that was closed instead of unlocked is not announced: let each that waits try once more.
        return sorted(free or (rank for rank in blocked if rank not in self._tried))
