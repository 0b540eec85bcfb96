"""The gate of a controlled schedule: ranks come to it before each move, and one at a time passes.

The gate is a pure state machine: the Conductor passes on the requests of the ranks, and asks for the threads that may
go on. A rank has one place for each of its threads that wait here; among its other threads the rank itself decides. No
thread passes while a rank is still running.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from breakrank_agent.schedules import Policy


class Who(NamedTuple):
    """A thread of a rank; thread 0 is the main thread."""

    rank: int
    thread: int = 0


@dataclass
class _Place:
    """The wait of a thread at the gate: for a turn (move), a lock (blocked) or its peers (collective)."""

    doing: str
    what: str = ""
    key: str = ""


@dataclass
class Gate:
    """The waits of all threads at the gate. `turn` counts the moves from 0."""

    ranks: list[int]
    policy: Policy
    turn: int = 0
    #: The locks that the threads of a rank wait for, if none of its threads can ever move again.
    locked: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    _running: set[int] = field(default_factory=set)
    _places: dict[Who, _Place] = field(default_factory=dict)
    _inside: dict[int, list[str]] = field(default_factory=dict)
    _parts: dict[str, tuple[int, set[int]]] = field(default_factory=dict)
    _freed: set[str] = field(default_factory=set)
    _tried: set[Who] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._running = set(self.ranks)

    def hear(self, rank: int, message: dict[str, Any]) -> None:
        """Take the message of a thread: `move`, `blocked`, `unlocked`, `collective`, or that its rank is `idle`.

        `more` says that another thread of the rank goes on, `aside` that the rank waits for others outside of the
        schedule, `issued` that it takes part in a collective without waiting for it yet.
        """
        who = Who(rank, message.get("thread", 0))
        if "unlocked" in message:
            self._freed.add(message["unlocked"])
            self._tried.clear()
            return
        if "issued" in message:
            self._came(rank, *message["issued"])
            return
        if "aside" in message:
            (self._running.discard if message["aside"] else self._running.add)(rank)
            return
        if "move" in message:
            what, key = message["move"]
            self._places[who] = _Place("move", what, key)
        elif "blocked" in message:
            self._places[who] = _Place("blocked", "lock", message["blocked"])
            self._freed.discard(message["blocked"])
            self._tried.add(who)
        elif "collective" in message:
            what, key, size = message["collective"]
            self._came(rank, key, size)
            self._places[who] = _Place("collective", what, key)
        elif "idle" in message:
            self._inside[rank] = message["idle"]
            if "locks" in message:
                self.locked[rank] = message["locks"]
        if not message.get("more"):
            self._running.discard(rank)
        if "blocked" not in message:
            self._tried.clear()

    def gone(self, rank: int) -> None:
        """Take note that a rank has ended: its locks are free."""
        self._running.discard(rank)
        self._inside.pop(rank, None)
        self._places = {who: place for who, place in self._places.items() if who.rank != rank}
        self._tried.clear()
        self._freed.update(p.key for p in self._places.values() if p.doing == "blocked")

    def next(self) -> tuple[list[Who], dict[str, Any] | None]:
        """Return the threads that may go on now, and the turn that was taken for it, if it was a choice.

        No thread may while a rank is still running. A collective lets all its members go on together as soon as the
        last one has come. Raises `Diverged` from a replayed schedule.
        """
        if self._running:
            return [], None
        together = self._full_collective()
        for who in together:
            self._release(who)
        if together:
            return together, None
        candidates = self._candidates()
        if not candidates:
            return [], None
        rank = self.policy.choose(sorted({who.rank for who in candidates}), self.turn)
        who = min(one for one in candidates if one.rank == rank)
        place = self._release(who)
        taken = {"turn": self.turn, "rank": rank, "op": place.what, "key": place.key}
        self.turn += 1
        return [who], taken

    def _release(self, who: Who) -> _Place:
        self._running.add(who.rank)
        self._inside.pop(who.rank, None)
        return self._places.pop(who)

    def wait_outside(self) -> Who | None:
        """Let a thread wait for its lock outside of the schedule, where a process may release it; None if none waits.

        The Conductor asks for it when no thread in the schedule can move.
        """
        blocked = sorted(who for who, place in self._places.items() if place.doing == "blocked")
        if not blocked or self.stuck() is None:
            return None
        self._release(blocked[0])
        return blocked[0]

    def stuck(self) -> dict[int, str] | None:
        """Return the waits of each rank in words if none of them can ever go on, else None."""
        if not (self._places or self._inside) or self._running or self._full_collective() or self._candidates():
            return None
        waits: dict[int, list[str]] = {}
        for who, place in sorted(self._places.items()):
            waits.setdefault(who.rank, []).append(f"{place.what} {place.key}".strip())
        for rank, inside in self._inside.items():
            waits.setdefault(rank, []).extend(inside)
        return {rank: ", ".join(what) for rank, what in waits.items()}

    def _came(self, rank: int, key: str, size: int) -> None:
        self._parts.setdefault(key, (size, set()))[1].add(rank)

    def _full_collective(self) -> list[Who]:
        """Return those who wait for a collective in which all members take part by now."""
        for place in self._places.values():
            if place.doing == "collective":
                size, came = self._parts[place.key]
                if len(came) == size:
                    return sorted(w for w, p in self._places.items() if p.doing == "collective" and p.key == place.key)
        return []

    def _candidates(self) -> list[Who]:
        blocked = {who: p for who, p in self._places.items() if p.doing == "blocked"}
        free = [who for who, p in self._places.items() if p.doing == "move"]
        free += [who for who, p in blocked.items() if p.key in self._freed]
        # A lock that was closed instead of unlocked is not announced: let each that waits try once more.
        return free or [who for who in blocked if who not in self._tried]
