"""What a rank prints, kept in a file of bounded size: the beginning and the end."""

from __future__ import annotations

from pathlib import Path

#: Bytes kept of the beginning, and again of the end.
KEEP = 512 * 1024


class Output:
    """One stream of one rank. The file is complete as long as the stream is short, also after a crash of ours."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._written = 0
        self._tail = b""
        self._lost = 0

    def take(self, data: bytes) -> None:
        """Keep what was read from the pipe."""
        room = KEEP - self._written
        if room > 0:
            self._file.write(data[:room])
            self._written += len(data[:room])
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * KEEP:
            self._lost += len(self._tail) - KEEP
            self._tail = self._tail[-KEEP:]

    def close(self) -> None:
        """Write the end behind the beginning, and say how much is missing in between."""
        if len(self._tail) > KEEP:
            self._lost += len(self._tail) - KEEP
            self._tail = self._tail[-KEEP:]
        if self._lost:
            self._file.write(f"\n[{self._lost} bytes are left out here]\n".encode())
        self._file.write(self._tail)
        self._file.close()
