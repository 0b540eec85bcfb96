"""A picture as columns of small numbers: what a page carries, compressed, for its script to unpack."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from breakrank.files.bounded import plain
from breakrank.timeline.crowd import Heat
from breakrank.timeline.model import NEVER, Bar, Link, Mark, Picture

#: So many events are kept whole whatever they are; of more, those around strikes and findings, and the last ones.
_ALL_WHOLE, _LAST_WHOLE, _MOST_WHOLE = 4000, 30, 12_000
#: The fields of an event that say a call, in the order in which a person compares them.
_CALL = ("op", "group", "shapes", "dtype", "reduce", "root", "peer", "tag", "splits", "strides", "path", "how", "site")
#: Lists and texts of an event that are longer are cut.
_ITEMS, _TEXT, _NESTED = 24, 2000, 6


@dataclass
class Told:
    """The numbers by which a page says that it leaves something out."""

    events: int = 0
    whole: int = 0


@dataclass
class Table:
    """Values that occur often, each written once."""

    values: list[Any] = field(default_factory=list)
    _places: dict[Hashable, int] = field(default_factory=dict)

    def place(self, key: Hashable, value: Callable[[], Any]) -> int:
        """Return the position of a value, which is made where it is new."""
        at = self._places.get(key)
        if at is None:
            at = self._places[key] = len(self.values)
            self.values.append(value())
        return at


class Columns:
    """Writes bars and marks in columns; numbers that grow are written as differences."""

    def __init__(self, picture: Picture, whole: Callable[[Bar | Mark], bool]) -> None:
        self._picture = picture
        self._whole = whole
        self._calls, self._types = Table(), Table()
        self.kept = 0

    def _call(self, event: Mapping[str, Any]) -> int:
        """Return the position of a call in the table of calls; -1 for an event without one."""
        said = {name: event[name] for name in _CALL if name in event}
        if not said:
            return -1
        return self._calls.place(json.dumps(said, sort_keys=True), lambda: {k: shown_value(v) for k, v in said.items()})

    def bars(self) -> dict[str, Any]:
        """Return the columns of the bars, with whole events by the positions of their bars."""
        columns: dict[str, Any] = {name: [] for name in ("lane", "t", "d", "type", "step", "meet")}
        events: dict[int, Any] = {}
        before = (0, 0, 0, 0)
        for position, bar in enumerate(self._picture.bars):
            start, end = self._micros(bar.start), self._micros(bar.end)
            call = self._call(bar.event)
            kind = (bar.kind, bar.name, bar.ending, call)
            now = (bar.lane, start, bar.step, bar.meeting)
            delta = [new - old for new, old in zip(now, before, strict=True)]
            before = now
            row = (delta[0], delta[1], max(0, end - start), self._types.place(kind, partial(list, kind)), *delta[2:])
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            if self._whole(bar):
                events[position] = shown_value(bar.event)
        self.kept += len(events)
        return {**columns, "types": self._types.values, "events": events}

    def marks(self) -> dict[str, Any]:
        """Return the columns of the marks, with whole events by the positions of their marks."""
        types = Table()
        columns: dict[str, Any] = {name: [] for name in ("lane", "t", "type", "step", "turn")}
        events: dict[int, Any] = {}
        before = (0, 0)
        for position, mark in enumerate(self._picture.marks):
            now = (mark.lane, self._micros(mark.time))
            kind = (mark.kind, mark.name, self._call(mark.event))
            place = types.place(kind, partial(list, kind))
            row = (now[0] - before[0], now[1] - before[1], place, mark.step, mark.turn)
            before = now
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            if self._whole(mark):
                events[position] = shown_value(mark.event)
        self.kept += len(events)
        return {**columns, "types": types.values, "events": events}

    def calls(self) -> list[Any]:
        """Return the table of calls, once bars and marks are written."""
        return self._calls.values

    def _micros(self, time: float) -> int:
        return round((time - self._picture.zero) * 1e6)


def pack(
    picture: Picture, links: Sequence[Link] = (), near: Set[tuple[int, int]] = frozenset(), heat: Heat | None = None
) -> tuple[dict[str, Any], Told]:
    """Return a picture as values for JSON, and what was left out. `near` are the (attempt, step) kept whole."""
    count = len(picture.bars) + len(picture.marks)
    columns = Columns(picture, _chooser(picture, links, near, count))
    bars, marks = columns.bars(), columns.marks()
    data = {
        "lanes": [list(lane) for lane in picture.lanes],
        "bars": bars,
        "marks": marks,
        "calls": columns.calls(),
        "meetings": {
            "group": [meeting.group for meeting in picture.meetings],
            "number": [meeting.number for meeting in picture.meetings],
            "attempt": [meeting.attempt for meeting in picture.meetings],
            "differs": {n: meeting.differs for n, meeting in enumerate(picture.meetings) if meeting.differs},
            "absent": {n: meeting.absent[:64] for n, meeting in enumerate(picture.meetings) if meeting.absent},
        },
        "waits": {position: list(peers)[:64] for position, peers in picture.waits.items()},
        "links": [list(link) for link in links],
        "heat": asdict(heat) if heat is not None else None,
        "last": round((picture.last - picture.zero) * 1e6),
    }
    return data, Told(events=count, whole=columns.kept)


def _chooser(
    picture: Picture, links: Sequence[Link], near: Set[tuple[int, int]], count: int
) -> Callable[[Bar | Mark], bool]:
    """Return the function that says which bars and marks keep their whole events."""
    if count <= _ALL_WHOLE:
        return lambda one: True
    telling = {id(picture.marks[place]) for link in links for place in link[:2]}
    lasts: dict[int, list[float]] = {}
    for bar in picture.bars:
        lasts.setdefault(bar.lane, []).append(bar.start)
    after = {lane: starts[-_LAST_WHOLE:][0] for lane, starts in lasts.items()}
    left = [_MOST_WHOLE]

    def choose(one: Bar | Mark) -> bool:
        time = one.start if isinstance(one, Bar) else one.time
        close = time >= after.get(one.lane, 0.0) or (picture.lanes[one.lane].attempt, one.step) in near
        objected = isinstance(one, Bar) and (one.ending == NEVER or _differs(picture, one))
        left[0] -= bool(close)
        return id(one) in telling or objected or (close and left[0] >= 0)

    return choose


def _differs(picture: Picture, bar: Bar) -> bool:
    return bar.meeting >= 0 and bool(picture.meetings[bar.meeting].differs)


def shown_value(value: Any, depth: int = 0) -> Any:
    """Return a value of an event without what is long: texts in one line, the beginning of lists."""
    if isinstance(value, str):
        return plain(value if len(value) <= _TEXT else value[:_TEXT] + "…")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {plain(k): shown_value(v, depth + 1) for k, v in list(value.items())[:100]} if depth < _NESTED else "…"
    if isinstance(value, (list, tuple)):
        if depth >= _NESTED:
            return "…"
        rest = [f"… {len(value) - _ITEMS} more"] if len(value) > _ITEMS else []
        return [shown_value(item, depth + 1) for item in value[:_ITEMS]] + rest
    return value


def compressed(data: Mapping[str, Any]) -> str:
    """Return values as base64 of compressed JSON, the same for the same values."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
