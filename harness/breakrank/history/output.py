"""The output of a rank, kept in a file of bounded size: the beginning and the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import deque
from pathlib import Path

from breakrank.files.disk_space import RecordFile, Room
from breakrank.history.output_times import Times

#: Bytes kept of the beginning, and again of the end.
KEEP = 512 * 1024
#: The bytes that a pipe to us holds: a rank prints on while we do something else.
PIPE_BYTES = 1 << 20
#: A piece that is read at once, and the most that is read of one pipe before anything else is looked at.
_PIECE, _IN_A_ROW = 256 * 1024, 4 << 20


class Output:
    """One stream of one rank. The file is complete as long as the stream is short, also after a crash of ours."""

    def __init__(self, path: Path, room: Room | None = None) -> None:
        room = room or Room(path.parent)
        self._file = RecordFile(path, room)
        self._times = Times(path, room)
        self._written = 0
        #: The latest pieces, which are at least the end that is kept.
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._lost = 0

    def take(self, data: bytes) -> None:
        """Keep what was read from the pipe."""
        room = KEEP - self._written
        self._times.take(data, max(0, room))
        if room > 0:
            self._file.write(data[:room])
            self._written += len(data[:room])
            data = data[room:]
        if data:
            self._tail.append(data)
            self._held += len(data)
        while self._tail and self._held - len(self._tail[0]) >= KEEP:
            dropped = len(self._tail.popleft())
            self._held -= dropped
            self._lost += dropped

    def drain(self, descriptor: int) -> bool:
        """Read what a pipe holds, and of one that is filled anew at once a bounded part; return False at its end."""
        read = 0
        with contextlib.suppress(BlockingIOError):
            while read < _IN_A_ROW:
                data = os.read(descriptor, _PIECE)
                if not data:
                    return False
                self.take(data)
                read += len(data)
        return True

    def close(self) -> None:
        """Write the end behind the beginning, and say how much is missing in between."""
        tail = b"".join(self._tail)
        lost = self._lost + max(0, len(tail) - KEEP)
        said = f"\n[{lost} bytes are left out here]\n".encode() if lost else b""
        if said:
            self._file.write(said)
        self._file.write(tail[-KEEP:])
        self._times.close(len(tail[-KEEP:]), self._written + len(said))
        self._file.close()


def open_pipe() -> tuple[int, int]:
    """Return a pipe of which the first end, ours, never blocks, and which holds as much as the kernel allows."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    # A user has so many pages for pipes; beyond these a pipe has its usual size.
    with contextlib.suppress(OSError):
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer
