"""LogWriter: the rank's end of its log."""

from __future__ import annotations

import mmap
import time
from array import array
from time import monotonic
from typing import Callable, Optional, Union

from breakrank_agent.protocol.log.layout import (
    ACCESS,
    ALL_ONES,
    CODES,
    DROPPED,
    FIRST_WORDS,
    HEAD,
    HEADER_SIZE,
    LAST,
    LAST_CHECK,
    LENGTH,
    LIST,
    MARK_SIZE,
    MOST_LISTED,
    PLACE_AT,
    TABLE_SIZE,
    TAIL,
    TAIL_CHECK,
    WORD,
    check_begin,
)

#: The number of looks for room after which a writer asks whether its reader is still there.
_ASKS_AFTER = 64

#: Python's own: under a controlled schedule that of `time` lets other threads move, in the midst of a record.
pause = time.sleep


class LogWriter:
    """The rank's end of the ring. The caller holds a lock: one record is written at a time.

    Both ends share a byte counter of what was written, and one of what was drained. `count` is the index that the next
    event of the main thread has in its sequence. A full log makes its writer wait, unless its reader is `gone`, or has
    taken nothing for `patience_s`: then what does not fit is dropped and counted. `forsaken` is called when it is gone.
    """

    __slots__ = (
        *("_codes", "_head", "_map", "_places", "_shift", "_size", "_table_end", "_tail", "_times", "_tired", "_until"),
        *("count", "forsaken", "gone", "patience_s", "words"),
    )

    def __init__(self, path: Union[str, int]) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._size = check_begin(path, self._map[: HEAD * WORD], len(self._map))
        # A cast view stores a word in one go. struct.pack_into zeroes it first, and the other side could read that.
        self.words = memoryview(self._map).cast("Q")
        self._table_end = HEADER_SIZE + self._size
        self._tail = 0
        self._tired = False
        self.gone: Callable[[], bool] = _never
        self.patience_s: Optional[float] = None
        self.forsaken: Callable[[], None] = _nothing
        self.count = 0
        self._head = self.words[HEAD]
        #: Up to where a record lies in one piece of what is free, and what is to be added for its place in the map.
        self._until = self._shift = 0
        self._codes = FIRST_WORDS
        self._times = memoryview(self._map).cast("d")
        self._places: dict[str, int] = {"": 0}

    def mark(self, what: str, facts: str, number: int, step: int, visit: int) -> bool:
        """Append a point of the main thread, or `done`, in few words; return False if it has to be written in full.

        `facts` are values that are JSON already; if `number` is not 0, they end with the name of that value.
        """
        end = self._head + MARK_SIZE
        if end > self._until and not self._has_room(MARK_SIZE):
            return False
        first = self._codes[what]
        if facts:
            place = self._place(facts)
            if place < 0:
                return False
            first |= place << PLACE_AT
        words, at, n = self.words, (self._head + self._shift) >> 3, self.count
        words[at] = first
        words[at + 1] = n
        words[at + 2] = step
        words[at + 3] = visit
        words[at + 4] = number
        self._times[at + 5] = monotonic()
        self.count = n + 1
        words[HEAD] = self._head = end
        return True

    def numbers(self, facts: str, numbers: array[int], step: int) -> bool:
        """Append a payload that is a list of numbers; return False if it has to be written in full.

        `facts` are values that are JSON already, and end with the name of the list.
        """
        size = LIST.size + len(numbers) * numbers.itemsize
        need = size + -size % WORD
        if len(numbers) > MOST_LISTED or (self._head + need > self._until and not self._has_room(need)):
            return False
        place = self._place(facts)
        if place < 0:
            return False
        at = self._head + self._shift
        LIST.pack_into(self._map, at, size - LENGTH.size, CODES["list"], place, self.count, step, monotonic())
        self._map[at + LIST.size : at + size] = numbers
        self.count += 1
        self.words[HEAD] = self._head = self._head + need
        return True

    def access(self, facts: str, n: int, step: int, pick: Optional[int]) -> bool:
        """Append an access; return False if it has to be written in full.

        `facts` are its sequence, a blank, and values that are JSON already. They leave half of the table to the others.
        """
        place = self._places.get(facts)
        if place is None:
            place = self._keep(facts) if self._table_end < HEADER_SIZE + self._size + TABLE_SIZE // 2 else -1
        if place < 0 or (self._head + ACCESS.size > self._until and not self._has_room(ACCESS.size)):
            return False
        taken = 0 if pick is None else pick + 1
        at, size = self._head + self._shift, ACCESS.size - LENGTH.size
        ACCESS.pack_into(self._map, at, size, CODES["access"], place, n, step, taken, monotonic())
        self.words[HEAD] = self._head = self._head + ACCESS.size
        return True

    def _place(self, facts: str) -> int:
        """Return the place of facts in the table, or -1 if there is no room for them."""
        place = self._places.get(facts)
        return self._keep(facts) if place is None else place

    def _keep(self, facts: str) -> int:
        """Write facts into the table; return their place, or -1 if there is no room."""
        data = facts.encode()
        at, end = self._table_end, self._table_end + LENGTH.size + len(data)
        if end + LENGTH.size > len(self._map):
            return -1
        self._map[at + LENGTH.size : end] = data
        # The length last: it says that they are there.
        self._map[at : at + LENGTH.size] = LENGTH.pack(len(data))
        self._table_end = end
        place = self._places[facts] = len(self._places)
        return place

    def _has_room(self, need: int) -> bool:
        """Look anew at what is free; return whether a record lies there in one piece."""
        lap = self._head - self._head % self._size
        self._until = min(self._size + self._drained(), lap + self._size)
        self._shift = HEADER_SIZE - lap
        return self._head + need <= self._until

    def _drained(self) -> int:
        """Return up to where the reader has come."""
        tail = self.words[TAIL]
        if tail ^ self.words[TAIL_CHECK] == ALL_ONES:
            self._tail = tail
        return self._tail

    def last_step(self) -> int:
        """Return the step after which the rank is to end, 0 if nobody has said one."""
        last: int = self.words[LAST]
        return last if last ^ self.words[LAST_CHECK] == ALL_ONES else 0

    def write(self, record: bytes) -> None:
        """Append one record; wait for the reader if the log is full."""
        data = LENGTH.pack(len(record)) + record
        data += bytes(-len(data) % WORD)
        need = len(data)
        if self._head + need <= self._until or (need <= self._size and self._has_room(need)):
            at = self._head + self._shift
            self._map[at : at + need] = data
        elif need <= self._size and self._await_room(need):
            self._write_around(data)
        else:
            self.words[DROPPED] += 1
            return
        self.words[HEAD] = self._head = self._head + need

    def _await_room(self, need: int) -> bool:
        """Wait for room; return whether there is some."""
        asked, tail, since = 0, self._drained(), monotonic()
        while self._head + need > self._size + self._drained():
            if self._tired and tail == self._tail:
                return False
            pause(0.0005)
            asked += 1
            if asked % _ASKS_AFTER:
                continue
            if self.gone():
                self._tired = True
                self.forsaken()
                return False
            if tail != self._tail:
                tail, since = self._tail, monotonic()
            self._tired = self.patience_s is not None and monotonic() - since > self.patience_s
        self._tired = False
        return True

    def _write_around(self, data: bytes) -> None:
        """Write what may reach over the end of the ring."""
        start = self._head % self._size
        first = min(len(data), self._size - start)
        at = HEADER_SIZE + start
        self._map[at : at + first] = data[:first]
        self._map[HEADER_SIZE : HEADER_SIZE + len(data) - first] = data[first:]


def _never() -> bool:
    return False


def _nothing() -> None:
    """Do nothing."""
