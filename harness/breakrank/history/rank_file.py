"""The history of one rank on disk: all of it or, of a job that is watched for days, its beginning and its latest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from breakrank.files.bounded import Folder, parse
from breakrank.files.disk_space import RecordFile, Room
from breakrank.schemas.shape import shapes
from breakrank_agent.protocol.events import ConductorLine, RankLine
from breakrank_agent.protocol.log import HistoryError, peek_log

#: The parts of a bounded history, in order: its beginning, and two parts of which the older one is deleted first.
_PARTS = ("", ".before", ".latest")
#: The most bytes of a rank's log that are read: the log is made with a hundredth of that.
_MOST_LOG = 128 << 20
#: The texts that events share, and the most of them.
_TEXTS: dict[str, str] = {}
_MOST_TEXTS = 4096


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
        #: The number of events that have been deleted.
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


def read_chronicle(place: Folder, name: str) -> Iterator[RankLine]:
    """Yield what is kept of a rank's events. Raises `HistoryError` for the first that is damaged."""
    for part in _PARTS:
        yield from _lines(place, name + part, "event")


def read_conductor(place: Folder, name: str) -> Iterator[ConductorLine]:
    """Yield the Conductor's events. Raises `HistoryError` for the first that is damaged."""
    yield from _lines(place, name, "conductor")


def _lines(place: Folder, name: str, schema: str) -> Iterator[Any]:
    """Yield the events of one file of a run directory, of the shape that a schema says.

    A last line that a crash cut short is left out. Raises `HistoryError`, naming file and line, for any other that is
    no event, and `BreakrankError` for a file that is none of a run's.
    """
    path = str(place.path / name)
    for number, line in enumerate(place.lines(name), 1):
        yield _event(line, schema, f"{path}, line {number}")


def read_left(place: Folder, name: str) -> Iterator[RankLine]:
    """Yield what a rank's log still holds, where nobody has drained it. Raises `HistoryError` if it is damaged."""
    file = place.open(name, _MOST_LOG)
    if file is None:
        return
    with file:
        try:
            records = peek_log(file.fileno())
        except HistoryError as error:
            raise HistoryError(f"{place.path / name} is damaged: {error}") from None
    where = f"a record of {place.path / name}"
    for record in records:
        yield _event(record, "event", where)


def _event(record: bytes, schema: str, where: str) -> Any:
    """Return the event that a record of a stranger is, of the type that its kind has. Raises `HistoryError`."""
    try:
        event = parse(record)
    except ValueError as error:
        raise HistoryError(f"{where} is damaged: {error}") from None
    kind = event.get("kind") if isinstance(event, dict) else None
    if not isinstance(event, dict) or not isinstance(kind, str):
        raise HistoryError(f"{where} is no event")
    shape = shapes(schema).get(kind)
    # A kind that a later version may have written is read by nobody.
    wrong = shape.wrong(event) if shape is not None else ""
    if wrong:
        raise HistoryError(f"{where} is no {kind}: {wrong}")
    return {_shared(name): _shared(value) if type(value) is str else value for name, value in event.items()}


def _shared(text: str) -> str:
    """Return the one string of this text that all events have: they are mostly names, and there may be millions."""
    if len(_TEXTS) < _MOST_TEXTS:
        return _TEXTS.setdefault(text, text)
    return _TEXTS.get(text, text)


def _part(path: Path, name: str) -> Path:
    return path.with_name(path.name + name)
