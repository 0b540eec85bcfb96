"""The times at which lines of a rank's output arrived, in a file beside the output.

Each line of `rank-R.out.times` is `[offset, time]`: the lines of `rank-R.out` that begin at this byte or later, up to
the next entry, were read from the pipe at this time, by the clock of the events. The rank itself notes nothing. A rank
that writes in large blocks, as into any pipe, has its lines read late, and all at once.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder, parse
from breakrank.files.disk_space import RecordFile, Room

#: The end of the name of a file of times.
SUFFIX = ".times"
#: The most entries of the beginning of a stream, and again of its end.
_MOST = 20_000
#: Lines that arrive within this time are one entry.
_CLOSE_S = 0.001
#: The most bytes of such a file.
_MOST_BYTES = 4 << 20


class Times:
    """Notes when the lines of one stream arrived. The file is made with the first line."""

    def __init__(self, path: Path, room: Room) -> None:
        self._path, self._room = path.with_name(path.name + SUFFIX), room
        self._file: RecordFile | None = None
        self._read = self._entries = 0
        self._begins = True
        self._last = 0.0
        #: The latest lines beyond the beginning of the stream, whose place in the file is known in the end.
        self._tail: deque[tuple[int, float]] = deque(maxlen=_MOST)

    def take(self, data: bytes, first: int) -> None:
        """Note a piece that was just read, of which the file has the `first` bytes already."""
        offset = self._read if self._begins else self._read + data.find(b"\n") + 1
        begins_here = self._begins or b"\n" in data[:-1]
        self._read += len(data)
        self._begins = data.endswith(b"\n")
        now = time.monotonic()
        if not begins_here or now - self._last < _CLOSE_S:
            return
        self._last = now
        if offset < self._read - len(data) + first:
            self._write(offset, now)
        else:
            self._tail.append((offset, now))

    def close(self, kept: int, place: int) -> None:
        """Write the times of the end: its `kept` bytes lie at this place of the output's file."""
        begins = self._read - kept
        # The line that the end begins in, or after, arrived with the last piece before it.
        known = [(max(offset, begins), then) for offset, then in self._tail]
        for offset, then in dict(sorted(known)).items():
            self._write(place + offset - begins, then, most=2 * _MOST)
        if self._file is not None:
            self._file.close()

    def _write(self, offset: int, then: float, most: int = _MOST) -> None:
        if self._entries < most:
            self._entries += 1
            self._file = self._file or RecordFile(self._path, self._room)
            self._file.write(b"[%d, %.6f]\n" % (offset, then))


class Printed(NamedTuple):
    """One line of output, and the time at which it was read."""

    time: float
    text: str


def read_lines(place: Folder, name: str, most: int) -> list[Printed]:
    """Return the last lines of an output whose times are known, at most so many. Raises `BreakrankError`."""
    times = list(_entries(place, name + SUFFIX))
    if not times:
        return []
    data = place.read(name) or b""
    offsets = [offset for offset, _ in times]
    lines: deque[Printed] = deque(maxlen=most)
    offset = 0
    for line in data.split(b"\n"):
        at = bisect_right(offsets, offset) - 1
        if at >= 0 and line.strip():
            lines.append(Printed(times[at][1], line.decode(errors="replace")))
        offset += len(line) + 1
    return list(lines)


def _entries(place: Folder, name: str) -> Iterator[tuple[int, float]]:
    """Yield the entries of a file of times; one that is cut ends there. Raises `BreakrankError`."""
    before = 0
    for line in (place.read(name, _MOST_BYTES) or b"").splitlines():
        try:
            entry = parse(line)
        except (ValueError, BreakrankError):
            return
        if not _is_entry(entry) or entry[0] < before:
            return
        before = entry[0]
        yield entry[0], float(entry[1])


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, Sequence) or [type(one) for one in entry] not in ([int, float], [int, int]):
        return False
    return bool(entry[0] >= 0 and 0 < entry[1] < 1e9)
