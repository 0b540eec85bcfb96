"""The threads of a rank under a controlled schedule: one at a time holds the rank's turn and moves.

There is no thread that schedules: the holder of the turn picks its successor, by the plan's policy, hands over, and
sleeps until it is picked. Moves for which several ranks compete are asked of the Conductor. A thread that waits there
is away, and the other threads of its rank go on meanwhile, until none can: then the rank listens for an answer. So a
rank's picks depend on nothing but its seed and its own moves, and the Conductor's turns on nothing but those of all
ranks.

Time is logical here, too: a wait with a limit ends when nobody else can move, the one with the nearest limit first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from _thread import allocate_lock
from collections.abc import Iterator
from importlib import _bootstrap
from typing import Any, Callable, NoReturn, Optional, Protocol

from breakrank_agent.schedules import Diverged, Policy


class Line(Protocol):
    """The line to the Conductor."""

    def tell(self, message: dict[str, Any]) -> None:
        """Say something that needs no answer."""

    def hear(self) -> dict[str, Any]:
        """Wait for an answer; empty if there is nobody left to give one."""


class Wait(Protocol):
    """Something that a thread can wait for inside its rank."""

    def over(self) -> bool:
        """Return whether the wait is over."""

    def outside(self) -> bool:
        """Return whether a thread that is not under the schedule may end the wait."""

    def block(self, limit: Optional[float]) -> None:
        """Wait for real, `limit` seconds at most."""

    def words(self) -> str:
        """Say what is waited for, and which thread has it."""


class Member:
    """A thread under the schedule. `pick` is the number of the pick by which it moves, until it is on record."""

    def __init__(self, number: int, daemon: bool = False) -> None:
        self.number = number
        self.daemon = daemon
        self.pick: Optional[int] = None
        self.away = False
        #: True while it waits for something that the schedule does not know, and has lost its turn over it.
        self.aside = False
        #: Its identity in Python and its number in the system, 0 until it runs.
        self.ident = self.native = 0
        self.ended = False
        self.passing = 0
        self.waits: Optional[Wait] = None
        self.until: Optional[float] = None
        self.answer: dict[str, Any] = {}
        self._token = allocate_lock()
        self._token.acquire()

    @property
    def name(self) -> str:
        """The name of the thread in the history."""
        return f"thread-{self.number}" if self.number else "main"

    def wake(self) -> None:
        """Hand the turn to it."""
        self._token.release()

    def sleep(self) -> None:
        """Wait until it is handed the turn."""
        self._token.acquire()

    def take_pick(self) -> Optional[int]:
        """Return the pick by which it moves, for the event that comes of it; None if that is on record already."""
        pick, self.pick = self.pick, None
        return pick


#: Holds the turn while every thread waits, one of them outside of the schedule.
_NOBODY = Member(-1)


class Turns:
    """The turn of a rank: one of its threads holds it and moves. Only the holder changes anything here."""

    def __init__(self, policy: Policy, line: Line, note: Callable[[Member], None], where: Callable[[int], str]) -> None:
        self._policy = policy
        #: Called with a thread that has lost its turn; set by the hook of threads.
        self.note_aside: Callable[[Member], None] = lambda member: None
        self._where = where
        self._line = line
        self._note = note
        self._members = [Member(0)]
        self._idents: dict[int, Member] = {}
        self._holder = self._members[0]
        self._enter(self._holder)
        self._picks = self._moves = 0
        #: True while the holder waits inside the schedule itself: for an answer, or for a thread that is not under it.
        self._inside = False
        self._guard = allocate_lock()
        self._now = 0.0
        self._pid = os.getpid()

    def me(self) -> Optional[Member]:
        """Return the calling thread, or None if it is not under the schedule, or holds no turn.

        A signal's handler may run in a thread that sleeps here; it holds no turn.
        """
        member = self._idents.get(threading.get_ident())
        if member is None or member.passing or os.getpid() != self._pid:
            return None
        if member.aside:
            self._come_back(member)
        if member is not self._holder:
            return None
        self._moves += 1
        return member

    def holding(self) -> tuple[int, int]:
        """Return the native id of the holder of the turn, 0 for nobody, and how often the turn was asked for."""
        return (0 if self._inside else self._holder.native), self._moves

    def take_over(self, moves: int) -> None:
        """Revoke the turn of a holder that is blocked outside the schedule, if `holding` still returns `moves`."""
        with self._guard:
            holder = self._holder
            if self._inside or holder is _NOBODY or moves != self._moves:
                return
            holder.aside = True
            self.note_aside(holder)
            candidates = self._candidates()
            self._holder = _NOBODY
            if candidates:
                self._hand_to(self._pick(candidates))
            else:
                self._line.tell({"aside": True})

    def _come_back(self, me: Member) -> None:
        """Take part again, after the wait that cost the turn. The turn is free if all others wait."""
        with self._guard:
            me.aside = False
            free = self._holder is _NOBODY
            if free:
                self._holder = me
                self._line.tell({"aside": False})
        if not free:
            me.sleep()

    @property
    def alone(self) -> bool:
        """True if the rank has never had a thread but its main thread under the schedule."""
        return len(self._members) == 1

    @contextlib.contextmanager
    def passing(self, me: Member) -> Iterator[None]:
        """Let a thread do something for real, without a point in it."""
        me.passing += 1
        try:
            yield
        finally:
            me.passing -= 1

    @contextlib.contextmanager
    def standing_aside(self) -> Iterator[None]:
        """Let the other ranks move while this one waits for them, unseen by the schedule."""
        self.tell({"aside": True})
        try:
            yield
        finally:
            self.tell({"aside": False})

    # --- the calling thread

    def expect(self, daemon: bool) -> Member:
        """Take in a thread that is about to be started: it can be picked from now on."""
        member = Member(len(self._members), daemon)
        self._members.append(member)
        return member

    def forget(self, member: Member) -> None:
        """Take back a thread that could not be started."""
        member.ended = True

    def begin(self, member: Member) -> None:
        """Begin a thread's own part: wait for its first turn. Called in the thread itself."""
        self._enter(member)
        member.sleep()

    def _enter(self, member: Member) -> None:
        """Know this thread as a member from now on."""
        member.ident, member.native = threading.get_ident(), threading.get_native_id()
        self._idents[member.ident] = member

    def take_main(self) -> None:
        """Go on in this thread as the main one, which is the only one yet."""
        self._idents.clear()
        self._enter(self._members[0])

    def end(self, member: Member) -> None:
        """End a thread's part, and hand the turn on for good."""
        member.ended = True
        self._idents.pop(threading.get_ident(), None)
        follower = self._next(member)
        if follower is not None:
            self._hand_to(follower)

    def leave(self) -> None:
        """End the main thread's part: Python now waits for the other threads, outside of the schedule."""
        me = self.me()
        if me is not None and not self.alone:
            self.end(me)

    def point(self) -> None:
        """Let somebody else move first, if that is what the policy picks."""
        me = self.me()
        if me is not None and len(self._members) > 1 and not _imports():
            follower = self._pick(self._candidates())
            if follower is not me:
                self._switch(me, follower)

    def wait(self, what: Wait, limit: Optional[float] = None) -> bool:
        """Let others move until the wait is over; return False if its limit came first, or it cannot be left to us."""
        me = self.me()
        if me is None or _imports():
            return False
        me.waits, me.until = what, None if limit is None else self._now + limit
        try:
            while not what.over():
                follower = self._next(me)
                if follower is me and what.outside() and not what.over():
                    self._inside = True
                    what.block(limit)
                    self._inside = False
                    return what.over()
                if follower is not None:
                    self._switch(me, follower)
                if me.until is not None and self._now >= me.until:
                    return what.over()
        finally:
            me.waits = me.until = None
        return True

    def ask(self, message: dict[str, Any], waits: bool = False) -> dict[str, Any]:
        """Ask the Conductor, and return its answer; if it may take others' moves, our own threads go on meanwhile."""
        me = self.me()
        if me is None:
            return {}
        others = [m for m in self._candidates() if m is not me] if waits else []
        me.away, me.answer = True, {}
        self._line.tell({**message, "thread": me.number, "more": bool(others)})
        follower = self._pick(others) if others else self._listen()
        if follower is not None:
            self._switch(me, follower)
        me.away = False
        return me.answer

    def tell(self, message: dict[str, Any]) -> None:
        """Tell the Conductor something that needs no answer."""
        if self.me() is not None:
            self._line.tell(message)

    # --- the thread that follows

    def _candidates(self) -> list[Member]:
        return [m for m in self._members if not (m.ended or m.away or m.aside) and (m.waits is None or m.waits.over())]

    def _pick(self, candidates: list[Member]) -> Member:
        if len(candidates) == 1:
            return candidates[0]
        try:
            number = self._policy.choose([m.number for m in candidates], self._picks)
        except Diverged as error:
            self._line.tell({"diverged": str(error)})
            _stand_still()
        picked = self._members[number]
        if picked.pick is not None:
            # Its last move left nothing on record, and a replay must find each pick there.
            self._note(picked)
        picked.pick = self._picks
        self._picks += 1
        return picked

    def _next(self, me: Member) -> Optional[Member]:
        """Return the thread that moves now that `me` cannot; None if none is left to."""
        candidates = self._candidates()
        if candidates:
            return self._pick(candidates)
        left = [m for m in self._members if not m.ended]
        if any(m.away for m in left):
            self._line.tell({"idle": [w["for"] for w in _waits(left, self._where)], "thread": me.number})
            return self._listen()
        outside = [m for m in left if m.waits is not None and m.waits.outside()]
        if outside:
            return outside[0]
        limited = [m for m in left if m.until is not None]
        if limited:
            first = min(limited, key=lambda m: (m.until, m.number))
            self._now = first.until or 0.0
            return first
        if any(m.aside for m in left):
            return self._wait_aside(me)
        if all(m.daemon for m in left):
            return None
        self._line.tell({"idle": [], "locks": _waits(left, self._where), "thread": me.number})
        _stand_still()

    def _wait_aside(self, me: Member) -> Optional[Member]:
        """Leave the turn to a thread that waits outside of the schedule, until it comes back and can move."""
        with self._guard:
            self._holder = _NOBODY
            self._line.tell({"aside": True})
        if me.ended:
            return None
        me.sleep()
        return me

    def _listen(self) -> Member:
        """Wait for an answer, and return the thread that it is for; without a Conductor the one that asked goes on."""
        self._inside = True
        answer = self._line.hear()
        self._inside = False
        away: Member = next(m for m in self._members if m.away)
        member = self._members[answer.get("thread", 0)] if answer else away
        member.answer, member.away = answer, False
        return member

    def _hand_to(self, member: Member) -> None:
        self._holder = member
        member.wake()

    def _switch(self, me: Member, follower: Member) -> None:
        if follower is not me:
            self._hand_to(follower)
            me.sleep()


def _stand_still() -> NoReturn:
    """Wait to be ended: there is nothing that could still happen here."""
    while True:
        time.sleep(1)


def _waits(members: list[Member], where: Callable[[int], str]) -> list[dict[str, str]]:
    """Return the threads that wait, each with what it waits for and the user's line that it is in."""
    return [{"thread": m.name, "for": m.waits.words(), "site": where(m.ident)} for m in members if m.waits is not None]


def _imports() -> bool:
    """Return whether this thread is importing: parked with a module's lock, it would block the others for real."""
    locks = _bootstrap._module_locks  # type: ignore[attr-defined]
    if not locks:
        return False
    ident = threading.get_ident()
    held = [lock for lock in (weak() for weak in list(locks.values())) if lock is not None]
    return any(getattr(lock, "owner", None) == ident for lock in held)
