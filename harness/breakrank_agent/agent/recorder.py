"""Recorder: writes the events of one rank, in the order of each of its threads.

A point is the hottest path of the agent. The attributes that it reads lie side by side in slots: its cost is the memory
that it touches.
"""

from __future__ import annotations

import json
import sys
import time
from _thread import RLock
from array import array
from collections.abc import Mapping
from threading import get_ident
from typing import Any, Callable, Optional

from breakrank_agent.agent.callbacks import Callbacks
from breakrank_agent.agent.sequences import Sequences
from breakrank_agent.protocol.clock import MAIN, Clock
from breakrank_agent.protocol.log import NUMBER, RECORD_LIMIT, LogWriter, encode, event_text, members, pause

#: Strikes what is due at a step, a point and a visit.
Strikes = Callable[[int, str, int], None]


class Recorder:
    """The one writer of a process's log, called by any thread."""

    __slots__ = (
        *("_alone", "_before_point", "_counts", "_inside", "_lock", "_log", "_look_back", "_under_way", "child"),
        *("clock", "here", "main", "over", "sees", "sequences", "strike"),
    )

    def __init__(self, log: LogWriter, on: Callbacks, watched: bool) -> None:
        self._inside = False
        #: True if the last event is on record.
        self.over = False
        self._under_way: Mapping[int, Any] = {}
        self._before_point = on.point
        self._alone = not _free_threads()
        self.clock = Clock()
        self._log = log
        #: Called on entering a point, where a strike was armed in this rank.
        self.strike: Optional[Strikes] = None
        self._look_back: Callable[[], None] = _nothing
        #: True in the rank's own process, False in a child that it forked.
        self.here = True
        #: True if reads, writes and syncs of this process go on record.
        self.sees = True
        #: The name of the child that this process is; empty in the rank's own process.
        self.child = ""
        self._lock = RLock()
        self.sequences = Sequences(self._lock, watched, on.native_thread)
        #: A copy, so that a point does not have to follow `sequences` for it.
        self.main = self.sequences.main
        #: The number of events in the sequence of each other thread; the log counts the main thread's.
        self._counts: dict[str, int] = {}

    def end(self) -> None:
        """Record nothing more."""
        self.over, self.sees = True, False

    def last_step(self) -> int:
        """Return the step after which this rank is to end, 0 if nobody has said one."""
        return self._log.last_step()

    def begin_anew(self, child: str, log: LogWriter) -> None:
        """Go on as a watched child with a log of its own: it enters no points, and its accesses and syncs are recorded.

        The fork was made in the midst of anything: locks of the other threads, which are not here, are made anew.
        """
        self._log, self.child = log, child
        self.here, self.over, self.sees = False, True, True
        self._lock, self._alone, self._inside = RLock(), not _free_threads(), False
        self.sequences.begin_anew(self._lock)
        self.main = self.sequences.main
        self._counts = {}

    def leave_main(self) -> None:
        """Be the main sequence no more. The thread that is (`take_main`) is started after this one has left it."""
        self.main = self.sequences.main = None

    def take_main(self) -> None:
        """Go on in this thread with what has been the main thread's sequence."""
        self.main = self.sequences.main = get_ident()

    def look_back_while(self, under_way: Mapping[int, Any], look_back: Callable[[], None]) -> None:
        """Call `look_back` on entering each point for as long as `under_way` holds something."""
        self._under_way, self._look_back = under_way, look_back

    def record(self, kind: str, **values: Any) -> None:
        """Append an event to this thread's sequence."""
        self.record_text(kind, members(values))

    def touch(self, sequence: str, values: str, pick: Optional[int]) -> None:
        """Append an access of which the values are JSON already, and come again, to this thread's sequence."""
        with self._lock:
            self._come_in()
            number, name = self._next_of(sequence)
            if not self._log.access(f"{name} {values}", number, self.clock.step, pick):
                said = values if pick is None else f'{values},"pick":{pick}'
                self._write("access", number, name, said)

    def record_text(self, kind: str, values: str) -> None:
        """Append an event of which the values are JSON already to this thread's sequence."""
        if get_ident() == self.main:
            self._inside = True
            try:
                if self._alone:
                    self._append(kind, MAIN, values)
                    return
            finally:
                self._inside = False
        with self._lock:
            self._come_in()
            self._append(kind, self.sequences.find(), values)

    def record_of(self, sequence: str, kind: str, **values: Any) -> None:
        """Append an event to another thread's sequence."""
        with self._lock:
            self._come_in()
            self._append(kind, sequence, members(values))

    def _append(self, kind: str, sequence: str, values: str) -> None:
        """Write an event of which the values are JSON already."""
        number, name = self._next_of(sequence)
        self._write(kind, number, name, values)

    def _next_of(self, sequence: str) -> tuple[int, str]:
        """Return the number of the next event of a sequence, and the name that is on record."""
        if sequence == MAIN:
            number = self._log.count
            self._log.count = number + 1
        else:
            number = self._counts.get(sequence, 0)
            self._counts[sequence] = number + 1
        if not self.child:
            return number, sequence
        return number, self.child if sequence == MAIN else f"{self.child}/{sequence}"

    def _write(self, kind: str, number: int, name: str, values: str) -> None:
        line = event_text(kind, number, name, self.clock.step, time.monotonic(), values)
        self._log.write(line if len(line) <= RECORD_LIMIT else encode(json.loads(line)))

    def _come_in(self) -> None:
        """Let one thread write at a time. Called with the lock held.

        As long as the main thread is alone it takes no lock, which would cost as much as the record. Any other thread
        that comes takes the lock, says so, and waits until the main thread is through with what it writes; from then on
        that takes the lock, too. It is never inside while it waits for the lock.
        """
        if get_ident() != self.main:
            self._alone = False
            while self._inside:
                pause(0)

    def reach(self, point: str, facts: str = "", number: int = 0, says: str = "") -> None:
        """Enter a point: record it, and strike if a strike is due.

        `facts` are values that are JSON already, and come again; if `number` is not 0, they end with its name. `says`
        are further ones, which do not come again.
        """
        if self.over:
            return
        if self._under_way:
            self._look_back()
        if get_ident() == self.main:
            if self._before_point:
                # One that has found what it looks for takes itself out of the list.
                for look in tuple(self._before_point):
                    look()
            self._inside = True
            try:
                alone = self._alone
                if alone:
                    step, visit = self.clock.enter(point)
                    if says or not self._log.mark(point, facts, number, step, visit):
                        self._append("point", MAIN, _in_full(point, visit, facts, number, says))
            finally:
                self._inside = False
            if alone:
                if self.strike is not None:
                    self.strike(step, point, visit)
                return
        self._reach_in_company(point, facts, number, says)

    def _reach_in_company(self, point: str, facts: str, number: int, says: str) -> None:
        """Enter a point where there are several threads that may write."""
        with self._lock:
            self._come_in()
            sequence = self.sequences.find()
            main = sequence == MAIN
            step, visit = self.clock.enter(point) if main else self.clock.enter_beside(point, sequence)
            self._append("point", sequence, _in_full(point, visit, facts, number, says))
        if self.strike is not None and (main or point == "step"):
            self.strike(step, point, visit)

    def complete(self, facts: str, number: int, says: str = "") -> None:
        """Record that a collective is over; `facts` end with the name of its number, `says` is what else there is."""
        if self.over:
            return
        if not says and get_ident() == self.main:
            self._inside = True
            try:
                if self._alone and self._log.mark("done", facts, number, self.clock.step, 0):
                    return
            finally:
                self._inside = False
        self.record_text("done", f"{facts}{number}{says}")

    def count(self, of: str, name: str, numbers: list[Any]) -> bool:
        """Record the list of whole numbers that a point handled; return False if it is none, or too long."""
        try:
            packed = array(NUMBER, numbers)
        except (TypeError, OverflowError):
            return False
        if self.over or not self.here or get_ident() != self.main:
            return False
        self._inside = True
        try:
            return self._alone and self._log.numbers(f',"of":"{of}","{name}":', packed, self.clock.step)
        finally:
            self._inside = False


def _in_full(point: str, visit: int, facts: str, number: int, says: str) -> str:
    """Return the values of a point that did not fit into few words."""
    return f',"point":"{point}","visit":{visit}{facts}{number or ""}{says}'


def _free_threads() -> bool:
    """Return whether this interpreter has no global lock: the order of two writes relies on the lock."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


def _nothing() -> None:
    """Do nothing."""
