"""A history is what happened: the mapped log that a rank writes, and the events that are read back.

An event is a JSON object. Of every rank's event: `kind`, `n` (its index in the rank's sequence), `seq` (`main`, or the
helper thread or loader worker), `step`. The kinds:

========  ====================================================================================================
rank      first of all: attempt, slot, rank, world, pid, versions
point     a point was entered: point, visit; a collective also op, group, shapes, dtype; a file its path
payload   what a point handled: of (the point), and digests, indices, norms; of a closed file what was written
raised    an exception passed through a point: point, type, message
told      the program said: name, values
census    what is alive after a step: lines (meter, site, function, count, bytes), totals, rss, limits, ms (its cost)
heap      the bytes of the C heap after a step, where no census is taken
access    a read or write of a tensor or file that others may touch: op, mode (r, w, rw), key, lo, hi, site, turn, pick
sync      what orders threads and ranks: do (acquire, release), key, turn, pick; see `breakrank_agent.accesses`
strike    a fault event: strike (its index), phase (armed, fired, seen, landed, act, healed, missed), witness
report    an exception left the main thread, or the program chose a non-zero exit: type, message, code, frames
end       the main module is over: how (returned, exit, os._exit, raised), code, params, norms, state
note      a remark: text
========  ====================================================================================================

The Conductor's events have `attempt` and mostly `rank`: spawned, exit (status: exit code or minus the signal; ended:
true if the Conductor ended it, or by: the launcher), launcher (status, ended, blames, closed), hung (why, waiting),
turn (rank, op, key, turn), stacks (rank, text), crash (rank, text, threads, address, unread: what a rank that died of a
signal said, and was seen to do), left (path, file,
size: a file that ranks wrote, as it lies on disk at the end of the attempt), and strike.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Callable

Event = dict[str, Any]

VERSION = 1
MAGIC = b"BRKRANK1"
HEADER_SIZE = 64
DEFAULT_SIZE = 1 << 20
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
#: Words of the header, of eight bytes each; magic, version and size are the first two.
_HEAD, _TAIL, _DROPPED = 2, 3, 4


class HistoryError(ValueError):
    """A history, or a file of it, cannot be read."""


def create_log(path: str, size: int = DEFAULT_SIZE) -> None:
    """Allocate the mapped log at `path`: `size` bytes of records behind the header.

    The blocks are reserved here, so that a disk that fills later cannot touch what a rank records. Raises `OSError`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, HEADER_SIZE + size)
        os.pwrite(descriptor, MAGIC + struct.pack("<II", VERSION, size), 0)
    finally:
        os.close(descriptor)


class _Log:
    """The ring both ends share: a byte counter of what was written, one of what was drained."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        magic, version, size = struct.unpack_from("<8sII", self._map, 0)
        if magic != MAGIC or version != VERSION or len(self._map) < HEADER_SIZE + size:
            raise HistoryError(f"{path} is no log of version {VERSION}")
        self._size: int = size
        # A cast view stores a word in one go. struct.pack_into zeroes it first, and the other side could read that.
        self._words = memoryview(self._map)[:HEADER_SIZE].cast("Q")

    def _get(self, word: int) -> int:
        return int(self._words[word])

    def _put(self, word: int, value: int) -> None:
        self._words[word] = value

    @property
    def dropped(self) -> int:
        """How many records were lost; more than none is VOID."""
        return self._get(_DROPPED)

    def close(self) -> None:
        """Unmap the log."""
        self._words.release()
        self._map.close()


class LogWriter(_Log):
    """The rank's end. The caller holds a lock: one record is written at a time."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._head = self._get(_HEAD)
        self._room_from = self._size + self._get(_TAIL)

    def write(self, record: bytes) -> None:
        """Append one record; wait for the reader if the log is full."""
        need = _LENGTH.size + len(record)
        if need > self._size:
            self._put(_DROPPED, self.dropped + 1)
            return
        head = self._head
        while head + need > self._room_from:
            self._room_from = self._size + self._get(_TAIL)
            if head + need > self._room_from:
                time.sleep(0.0005)
        data = _LENGTH.pack(len(record)) + record
        start = head % self._size
        at = HEADER_SIZE + start
        if start + need <= self._size:
            self._map[at : at + need] = data
        else:
            first = self._size - start
            self._map[at : at + first] = data[:first]
            self._map[HEADER_SIZE : HEADER_SIZE + need - first] = data[first:]
        self._head = self._words[_HEAD] = head + need


class LogReader(_Log):
    """The Conductor's end: whatever the rank wrote stays readable after the rank is gone."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._tail = self._get(_TAIL)

    def drain(self) -> list[bytes]:
        """Return the records written since the last call, and give their room back."""
        records = self.peek()
        self._put(_TAIL, self._tail)
        return records

    def peek(self) -> list[bytes]:
        """Return the records written since the last call, and leave them in the log."""
        head = self._get(_HEAD)
        records: list[bytes] = []
        while self._tail < head:
            (length,) = _LENGTH.unpack(self._copy_out(self._tail, _LENGTH.size))
            records.append(self._copy_out(self._tail + _LENGTH.size, length))
            self._tail += _LENGTH.size + length
        return records

    def _copy_out(self, position: int, length: int) -> bytes:
        start = position % self._size
        first = min(length, self._size - start)
        at = HEADER_SIZE + start
        data = bytes(self._map[at : at + first])
        if first < length:
            data += bytes(self._map[HEADER_SIZE : HEADER_SIZE + length - first])
        return data


def read_log(path: str) -> list[Event]:
    """Return the events that a log still holds, without taking them out of it. Raises `HistoryError`."""
    reader = LogReader(path)
    events = [json.loads(record) for record in reader.peek()]
    reader.close()
    return events


def encode(event: Event) -> bytes:
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


def members(values: Mapping[str, Any]) -> str:
    """Return values as further members of a JSON object that has some before them: `,"name":value` and so on."""
    return f",{_to_json(values)[1:-1]}" if values else ""


def append(file: BinaryIO, line: bytes) -> None:
    """Append one encoded event to a history file."""
    file.write(line + b"\n")


def read_events(path: str) -> Iterator[Event]:
    """Yield the events of a history file; a last line that a crash cut short is left out.

    Raises `HistoryError`, naming file and line, for anything else that is no event.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                event = json.loads(line)
            except ValueError:
                raise HistoryError(f"{path}, line {number} is damaged") from None
            if not isinstance(event, dict) or "kind" not in event:
                raise HistoryError(f"{path}, line {number} is no event")
            yield event
