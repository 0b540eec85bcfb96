"""The history of one rank on disk: all of it or, of a job that is watched for days, its beginning and its latest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from breakrank.room import RecordFile, Room
from breakrank_agent.history import Event, read_events

#: What a bounded history is made of, in order: its beginning, and two parts of which the older one gives way.
_PARTS = ("", ".before", ".latest")


class Chronicle:
    """Writes the events of one rank to `path`; with `keep`, at most that many bytes of them stay on disk.

    Once one of them finds no `room`, none of the later ones is written.
    """

    def __init__(self, path: Path, keep: int = 0, room: Room | None = None) -> None:
        self._path = path
        self._room = room or Room(path.parent)
        #: The beginning has a quarter of the room, each of the other parts three eighths.
        self._first, self._part = keep // 4, keep * 3 // 8
        self._size = self._lines = self._older = 0
        self._begun = False
        #: How many events have been given up.
        self.left_out = 0
        self._file = RecordFile(path, self._room)

    def append(self, line: bytes) -> None:
        """Append one encoded event."""
        if self._part and self._size + len(line) >= (self._part if self._begun else self._first):
            self._turn_over()
        self._file.write(line + b"\n")
        self._size += len(line) + 1
        self._lines += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _turn_over(self) -> None:
        """Begin another part; what was the older one is gone."""
        before, latest = (_part(self._path, name) for name in _PARTS[1:])
        self._file.close()
        if self._begun:
            os.replace(latest, before)
            self.left_out += self._older
            self._older = self._lines
        self._begun, self._size, self._lines = True, 0, 0
        self._file = RecordFile(latest, self._room)


def read_chronicle(path: Path) -> Iterator[Event]:
    """Yield what is kept of a rank's events. Raises `HistoryError` for a damaged file."""
    for name in _PARTS:
        part = _part(path, name)
        if part.exists():
            yield from read_events(str(part))


def _part(path: Path, name: str) -> Path:
    return path.with_name(path.name + name)
