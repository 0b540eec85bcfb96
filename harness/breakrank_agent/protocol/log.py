"""The mapped log that a rank writes its events to, and the end of it that reads them.

An event is a JSON object: `breakrank_agent.protocol.events` declares each kind.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
import time
from array import array
from collections.abc import Mapping
from time import monotonic
from typing import Any, BinaryIO, Callable, Optional, Union

from breakrank_agent.protocol.checked import parse
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.trigger import POINTS

VERSION = 5
MAGIC = b"BRKRANK1"
HEADER_SIZE = 64
DEFAULT_SIZE = 1 << 20
#: The bytes behind the records in which facts that come again and again are kept, once each.
TABLE_SIZE = 1 << 16
#: The largest record: a longer one is cut by its writer and marked.
RECORD_LIMIT = 1 << 16


def _encoder() -> Callable[[Any], str]:
    """Return what writes plain values as JSON without blanks.

    The encoder in C is made once. `json.dumps` makes one at each call, which takes longer than an event does.
    """
    c_make_encoder = getattr(json.encoder, "c_make_encoder", None)
    if c_make_encoder is None:
        return json.JSONEncoder(separators=(",", ":"), default=str).encode
    encode_chunks = c_make_encoder(None, str, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True)
    return lambda value: "".join(encode_chunks(value, 0))


_to_json = _encoder()

_LENGTH = struct.Struct("<I")
#: A record begins at a multiple of so many bytes: its length, then what it says.
_WORD = 8
#: A point, or the end of a collective, in few words: length, code, the place of its facts in the table (0: none); n;
#: step; visit; the number that the facts end with (0: none); t. In a step, most of what the agent costs is how much
#: memory it touches, and to store a word touches less of it than a struct that packs them all.
_MARK = struct.Struct("<IHHQQQQd")
_MARK_WORDS, _MARK_SIZE = _MARK.size // _WORD, _MARK.size
#: A payload that is a list of whole numbers: length, code, the place of its facts, n, step, t; the numbers follow.
_LIST = struct.Struct("<IHHIId")
#: An access: length, code, the place of its sequence and facts, n, step, the pick that it came of and one (0: none), t.
_ACCESS = struct.Struct("<IHHIIQd")
#: What a list consists of, as the module array names it: whole numbers of four bytes.
NUMBER = "i"
#: The most numbers of a list in few words: as text, it has to be within the limit of a record, too.
_MOST_LISTED = 4096
#: What is told in few words has a code; of a record that is text, the first byte is a brace.
_CODES = {name: code for code, name in enumerate((*POINTS, "done", "list", "access"), 1)}
_NAMES = {bytes([code]): name for name, code in _CODES.items()}
#: The first word of a mark without facts, and what the place of facts is shifted by in it.
_FIRST_WORDS = {name: (_MARK_SIZE - _LENGTH.size) | code << 32 for name, code in _CODES.items()}
_PLACE_AT = 48
#: Words of the header, of eight bytes each; magic, version and size are the first two. The tail is written by write(2),
#: which may be seen half done: its complement stands beside it.
_HEAD, _TAIL, _TAIL_CHECK, _DROPPED = 2, 3, 4, 5
_TAILS, _ALL_ONES = struct.Struct("<QQ"), (1 << 64) - 1
#: Magic, version and size; the head; the two words of the tail; how many records were dropped.
_HEADER = struct.Struct("<16sQ16xQ")
#: The most records that a log is taken to have room for, whatever it says.
_MOST_SIZE = 1 << 30
#: How often a writer that waits for room has found none before it asks whether its reader is still there.
_ASKS_AFTER = 64

#: Python's own: under a controlled schedule that of `time` lets other threads move, in the midst of a record.
pause = time.sleep


class HistoryError(ValueError):
    """A history, or a file of it, cannot be read."""


class Damaged(HistoryError):
    """A log does not hold what its writer writes; the message says why, in a clause."""


def create_log(path: str, size: int = DEFAULT_SIZE) -> None:
    """Allocate the mapped log at `path`: the header, `size` bytes of records (whole words), the table of facts.

    The blocks are reserved here, so that a disk that fills later cannot touch what a rank records. Raises `OSError`.
    """
    size += -size % _WORD
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, HEADER_SIZE + size + TABLE_SIZE)
        os.pwrite(descriptor, MAGIC + struct.pack("<II", VERSION, size), 0)
        os.pwrite(descriptor, _TAILS.pack(0, _ALL_ONES), _TAIL * _WORD)
    finally:
        os.close(descriptor)


class LogWriter:
    """The rank's end of the ring. The caller holds a lock: one record is written at a time.

    Both ends share a byte counter of what was written, and one of what was drained. `count` is the index that the next
    event of the main thread has in its sequence. A full log makes its writer wait, unless its reader is `gone`, or has
    taken nothing for `patience_s`: then what does not fit is dropped and counted. `forsaken` is called when it is gone.
    """

    __slots__ = (
        *("_codes", "_head", "_map", "_places", "_shift", "_size", "_table_end", "_tail", "_times", "_tired", "_until"),
        *("_words", "count", "forsaken", "gone", "patience_s"),
    )

    def __init__(self, path: Union[str, int]) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._size = _check_begin(path, self._map[: _HEAD * _WORD], len(self._map))
        # A cast view stores a word in one go. struct.pack_into zeroes it first, and the other side could read that.
        self._words = memoryview(self._map).cast("Q")
        self._table_end = HEADER_SIZE + self._size
        self._tail = 0
        self._tired = False
        self.gone: Callable[[], bool] = _never
        self.patience_s: Optional[float] = None
        self.forsaken: Callable[[], None] = _nothing
        self.count = 0
        self._head = self._words[_HEAD]
        #: Up to where a record lies in one piece of what is free, and what is to be added for its place in the map.
        self._until = self._shift = 0
        self._codes = _FIRST_WORDS
        self._times = memoryview(self._map).cast("d")
        self._places: dict[str, int] = {"": 0}

    def mark(self, what: str, facts: str, number: int, step: int, visit: int) -> bool:
        """Append a point of the main thread, or `done`, in few words; return False if it has to be written in full.

        `facts` are values that are JSON already; if `number` is not 0, they end with the name of that value.
        """
        end = self._head + _MARK_SIZE
        if end > self._until and not self._has_room(_MARK_SIZE):
            return False
        first = self._codes[what]
        if facts:
            place = self._place(facts)
            if place < 0:
                return False
            first |= place << _PLACE_AT
        words, at, n = self._words, (self._head + self._shift) >> 3, self.count
        words[at] = first
        words[at + 1] = n
        words[at + 2] = step
        words[at + 3] = visit
        words[at + 4] = number
        self._times[at + 5] = monotonic()
        self.count = n + 1
        words[_HEAD] = self._head = end
        return True

    def numbers(self, facts: str, numbers: array[int], step: int) -> bool:
        """Append a payload that is a list of numbers; return False if it has to be written in full.

        `facts` are values that are JSON already, and end with the name of the list.
        """
        size = _LIST.size + len(numbers) * numbers.itemsize
        need = size + -size % _WORD
        if len(numbers) > _MOST_LISTED or (self._head + need > self._until and not self._has_room(need)):
            return False
        place = self._place(facts)
        if place < 0:
            return False
        at = self._head + self._shift
        _LIST.pack_into(self._map, at, size - _LENGTH.size, _CODES["list"], place, self.count, step, monotonic())
        self._map[at + _LIST.size : at + size] = numbers
        self.count += 1
        self._words[_HEAD] = self._head = self._head + need
        return True

    def access(self, facts: str, n: int, step: int, pick: Optional[int]) -> bool:
        """Append an access; return False if it has to be written in full.

        `facts` are its sequence, a blank, and values that are JSON already. They leave half of the table to the others.
        """
        place = self._places.get(facts)
        if place is None:
            place = self._keep(facts) if self._table_end < HEADER_SIZE + self._size + TABLE_SIZE // 2 else -1
        if place < 0 or (self._head + _ACCESS.size > self._until and not self._has_room(_ACCESS.size)):
            return False
        taken = 0 if pick is None else pick + 1
        at, size = self._head + self._shift, _ACCESS.size - _LENGTH.size
        _ACCESS.pack_into(self._map, at, size, _CODES["access"], place, n, step, taken, monotonic())
        self._words[_HEAD] = self._head = self._head + _ACCESS.size
        return True

    def _place(self, facts: str) -> int:
        """Return the place of facts in the table, or -1 if there is no room for them."""
        place = self._places.get(facts)
        return self._keep(facts) if place is None else place

    def _keep(self, facts: str) -> int:
        """Write facts into the table; return their place, or -1 if there is no room."""
        data = facts.encode()
        at, end = self._table_end, self._table_end + _LENGTH.size + len(data)
        if end + _LENGTH.size > len(self._map):
            return -1
        self._map[at + _LENGTH.size : end] = data
        # The length last: it says that they are there.
        self._map[at : at + _LENGTH.size] = _LENGTH.pack(len(data))
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
        tail = self._words[_TAIL]
        if tail ^ self._words[_TAIL_CHECK] == _ALL_ONES:
            self._tail = tail
        return self._tail

    def write(self, record: bytes) -> None:
        """Append one record; wait for the reader if the log is full."""
        data = _LENGTH.pack(len(record)) + record
        data += bytes(-len(data) % _WORD)
        need = len(data)
        if self._head + need <= self._until or (need <= self._size and self._has_room(need)):
            at = self._head + self._shift
            self._map[at : at + need] = data
        elif need <= self._size and self._await_room(need):
            self._write_around(data)
        else:
            self._words[_DROPPED] += 1
            return
        self._words[_HEAD] = self._head = self._head + need

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


class LogReader:
    """The Conductor's end: whatever the rank wrote stays readable after the rank is gone.

    The rank may write anything anywhere in the file, and cut it short: of a mapping, that would end us (SIGBUS). It is
    read and written on a descriptor of its own, so that what is wrong is found and said. Raises `OSError`.
    """

    __slots__ = ("_begin", "_facts", "_file", "_path", "_size", "_table_end", "_tail", "_takes", "dropped")

    def __init__(self, path: Union[str, int], takes: bool = True) -> None:
        self._path, self._takes = path, takes
        # A link or a pipe in its place is not followed, nor waited for.
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_RDWR if takes else os.O_RDONLY)
        self._file = os.dup(path) if isinstance(path, int) else os.open(path, flags)
        try:
            status = os.fstat(self._file)
            self._begin = os.pread(self._file, _HEAD * _WORD, 0) if stat.S_ISREG(status.st_mode) else b""
            self._size = _check_begin(path, self._begin, status.st_size)
            self._tail, check = _TAILS.unpack(os.pread(self._file, _TAILS.size, _TAIL * _WORD))
            if self._tail ^ check != _ALL_ONES or self._tail % _WORD:
                raise Damaged("the header of its log was written over")
        except BaseException:
            os.close(self._file)
            raise
        self._table_end = HEADER_SIZE + self._size
        self._facts = [""]
        #: How many records were lost; more than none is VOID.
        self.dropped = 0
        self._look()

    def close(self) -> None:
        """Close the log."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def drain(self) -> list[bytes]:
        """Return the records written since the last call, and give their room back. Raises `Damaged`."""
        before = self._tail
        records = self.peek()
        if self._tail != before:
            os.pwrite(self._file, _TAILS.pack(self._tail, self._tail ^ _ALL_ONES), _TAIL * _WORD)
        return records

    def peek(self) -> list[bytes]:
        """Return the records written since the last call, and leave them in the log. Raises `Damaged`."""
        head = self._look()
        if head == self._tail:
            return []
        if not self._is_ahead(head):
            # It may have been read while it was being written, which is never seen twice.
            head = self._look()
        if not self._is_ahead(head):
            raise Damaged("the header of its log was written over")
        data = self._copy_out(self._tail, head - self._tail)
        records, at = [], 0
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            end = at + _LENGTH.size + length
            if end > len(data):
                raise Damaged(f"it says that a record has {length} bytes, where there is room for fewer")
            records.append(self._in_full(data[at + _LENGTH.size : end]))
            at = end + -end % _WORD
        self._tail = head
        return records

    def _look(self) -> int:
        """Read the header; return up to where records were written. Raises `Damaged`."""
        raw = os.pread(self._file, _HEADER.size, 0)
        if len(raw) < _HEADER.size:
            raise Damaged("its log was cut short")
        begin, head, self.dropped = _HEADER.unpack(raw)
        if begin != self._begin:
            raise Damaged("the header of its log was written over")
        return int(head)

    def _is_ahead(self, head: int) -> bool:
        return self._tail <= head <= self._tail + self._size and head % _WORD == 0

    def _in_full(self, record: bytes) -> bytes:
        """Return a record as the JSON that it stands for, if it is one in few words. Raises `Damaged`."""
        name = _NAMES.get(record[:1])
        if name is None:
            return record
        try:
            return self._as_event(name, bytes(_LENGTH.size) + record)
        except (struct.error, ValueError) as error:
            raise error if isinstance(error, Damaged) else Damaged(f"a record of the kind {name!r} is none") from None

    def _as_event(self, name: str, data: bytes) -> bytes:
        if name == "list":
            _, _, place, n, step, now = _LIST.unpack_from(data)
            numbers = array(NUMBER, data[_LIST.size :]).tolist()
            return event_text("payload", n, MAIN, step, now, f"{self._kept(place)}{numbers}")
        if name == "access":
            _, _, place, n, step, taken, now = _ACCESS.unpack(data)
            sequence, _, values = self._kept(place).partition(" ")
            return event_text(name, n, sequence, step, now, values + (f',"pick":{taken - 1}' if taken else ""))
        _, _, place, n, step, visit, number, now = _MARK.unpack(data)
        values = self._kept(place) + (str(number) if number else "")
        if name == "done":
            return event_text(name, n, MAIN, step, now, values)
        return event_text("point", n, MAIN, step, now, f',"point":"{name}","visit":{visit}{values}')

    def _kept(self, place: int) -> str:
        """Return facts of the table by their place. Raises `Damaged`."""
        while place >= len(self._facts):
            start, end = self._table_end + _LENGTH.size, HEADER_SIZE + self._size + TABLE_SIZE
            (length,) = _LENGTH.unpack(os.pread(self._file, _LENGTH.size, self._table_end))
            data = os.pread(self._file, length, start) if 0 < length <= end - start else b""
            if len(data) != length or not data:
                raise Damaged(f"a record names facts that are not in its table, at place {place}")
            self._facts.append(data.decode())
            self._table_end = start + length
        return self._facts[place]

    def _copy_out(self, position: int, length: int) -> bytes:
        start = position % self._size
        first = min(length, self._size - start)
        data = os.pread(self._file, first, HEADER_SIZE + start)
        if first < length:
            data += os.pread(self._file, length - first, HEADER_SIZE)
        if len(data) != length:
            raise Damaged("its log was cut short")
        return data


def _check_begin(path: Union[str, int], begin: bytes, total: int) -> int:
    """Return the bytes that a log has for records, by its first words. Raises `HistoryError` if it is no log."""
    if len(begin) == _HEAD * _WORD:
        magic, version, size = struct.unpack("<8sII", begin)
        fits = 0 < size <= _MOST_SIZE and size % _WORD == 0 and total >= HEADER_SIZE + size + TABLE_SIZE
        if magic == MAGIC and version == VERSION and fits:
            return int(size)
    raise HistoryError(f"{path} is no log of version {VERSION}")


def _never() -> bool:
    return False


def _nothing() -> None:
    """Do nothing."""


def read_log(path: str) -> list[dict[str, Any]]:
    """Return the events that a log still holds, without taking them out of it. Raises `HistoryError`."""
    try:
        return [parse(record, 2 * RECORD_LIMIT) for record in peek_log(path)]
    except ValueError as error:
        raise HistoryError(f"{path} is damaged: {error}") from None


def peek_log(path: Union[str, int]) -> list[bytes]:
    """Return the records that a log still holds, without taking them out of it; `path` may be an open file.

    It may hold anything. Raises `HistoryError` for what is no log, or a damaged one.
    """
    try:
        reader = LogReader(path, takes=False)
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return reader.peek()
    finally:
        reader.close()


def encode(event: Mapping[str, Any]) -> bytes:
    """Return the event as one line of JSON without its newline; an oversized one loses its longest text."""
    line = _to_json(event).encode()
    if len(line) <= RECORD_LIMIT:
        return line
    longest = max(event, key=lambda k: len(_to_json(event[k])))
    rest = {**event, longest: "(cut)", "cut": longest}
    line = _to_json(rest).encode()
    if len(line) <= RECORD_LIMIT:
        return line
    # Many long fields: what every event has is kept.
    kept = {name: event[name] for name in ("kind", "n", "seq", "step", "t") if name in event}
    return _to_json({**kept, "cut": "all"}).encode()


def event_text(kind: str, n: int, seq: str, step: int, now: float, values: str) -> bytes:
    """Return an event of which the values are JSON already, from the second on."""
    return f'{{"kind":"{kind}","n":{n},"seq":"{seq}","step":{step},"t":{now:.6f}{values}}}'.encode()


def members(values: Mapping[str, Any]) -> str:
    """Return values as further members of a JSON object that has some before them: `,"name":value` and so on."""
    return "".join([f',"{name}":{_value(value)}' for name, value in values.items()])


def _value(value: Any) -> str:
    """Return a value as JSON. Whole numbers, and lists of them, are JSON as Python writes them, which costs less."""
    kind = type(value)
    if kind is int or (kind is list and set(map(type, value)) == {int}):
        return str(value)
    return _to_json(value)


def append(file: BinaryIO, line: bytes) -> None:
    """Append one encoded event to a history file."""
    file.write(line + b"\n")
