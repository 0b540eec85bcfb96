"""A picture as a trace in Chrome's format, which Perfetto opens: a process a rank, a thread for it and for its calls.

Flows join the members of one collective. All times are microseconds from the picture's zero.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.timeline.draw import draw
from breakrank.timeline.model import COLLECTIVE, INNER, MEETING, MESSAGE, NEVER, PHASE, Bar, Picture
from breakrank.timeline.pack import shown_value
from breakrank.timeline.reading import Seen, read_run

#: Each lane has these threads: its phases and marks, its strikes, which may lie across phases, and its calls, of which
#: several may be under way; a thread holds none that overlap, so that a viewer does not take one for a part of another.
_PHASES, _STRIKES, _CALLS, _THREADS = 0, 1, 2, 1000
_ROWS = {PHASE: _PHASES, INNER: _PHASES, COLLECTIVE: _CALLS, MESSAGE: _CALLS, MEETING: _CALLS}
#: The processes of an attempt are numbered from a multiple of this.
_ATTEMPT = 1 << 20


def write_trace(folder: Path, path: Path) -> Path:
    """Write the trace of a saved run, compressed if its name ends with `.gz`. Raises `BreakrankError`."""
    text = json.dumps(trace(read_run(folder)), separators=(",", ":")).encode()
    try:
        path.write_bytes(gzip.compress(text, 6, mtime=0) if path.suffix == ".gz" else text)
    except OSError as error:
        raise BreakrankError(f"the trace cannot be written to {path}: {error.strerror}") from None
    return path


def trace(seen: Seen) -> dict[str, Any]:
    """Return the trace of a run, as values for JSON."""
    faults = [strike.fault.name() for strike in seen.plan.strikes] if seen.plan is not None else []
    picture = draw(seen.history, faults, seen.printed)
    places = _places(picture)
    rows = _rows(picture)
    events = [*_names(picture, places, rows), *_bars(picture, places, rows), *_flows(picture, places, rows)]
    events += _marks(picture, places)
    # Viewers that read a trace once expect each thread's events in the order of their times.
    events.sort(key=lambda event: event.get("ts", -1))
    said = {name: plain(seen.verdict.get(name, "")) for name in ("outcome", "sentence", "digest")}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {**said, "run": plain(seen.folder.name)}}


def _places(picture: Picture) -> list[tuple[int, int]]:
    """Return the process and the first thread of each lane."""
    counts: dict[int, int] = {}
    places = []
    for lane in picture.lanes:
        process = lane.attempt * _ATTEMPT + lane.rank + 1
        places.append((process, _THREADS * counts.get(process, 0) + 1))
        counts[process] = counts.get(process, 0) + 1
    return places


def _rows(picture: Picture) -> list[int]:
    """Return the thread of each bar among those of its lane."""
    rows = []
    ends: dict[int, list[float]] = {}
    for bar in picture.bars:
        row = _ROWS.get(bar.kind, _STRIKES)
        if row == _CALLS:
            under_way = ends.setdefault(bar.lane, [])
            free = next((n for n, end in enumerate(under_way) if end <= bar.start), len(under_way))
            under_way[free : free + 1] = [bar.end]
            row = min(_CALLS + free, _THREADS - 1)
        rows.append(row)
    return rows


def _names(picture: Picture, places: list[tuple[int, int]], rows: list[int]) -> Iterator[dict[str, Any]]:
    several = len({lane.attempt for lane in picture.lanes}) > 1
    used: dict[int, set[int]] = {}
    for bar, row in zip(picture.bars, rows, strict=True):
        used.setdefault(bar.lane, {_PHASES}).add(row)
    for number, (lane, (process, thread)) in enumerate(zip(picture.lanes, places, strict=True)):
        if lane.thread == "main":
            attempt = f" (attempt {lane.attempt})" if several else ""
            name = f"rank {lane.rank}{attempt}{f': {lane.end}' if lane.end else ''}"
            yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        for row in sorted(used.get(number, {_PHASES})):
            more = {_PHASES: "", _STRIKES: " strikes", _CALLS: " collectives"}.get(row, f" collectives {row - 1}")
            where = {"pid": process, "tid": thread + row}
            yield {"ph": "M", "name": "thread_name", **where, "args": {"name": f"{lane.thread}{more}"}}


def _bars(picture: Picture, places: list[tuple[int, int]], rows: list[int]) -> Iterator[dict[str, Any]]:
    for bar, row in zip(picture.bars, rows, strict=True):
        never = " (never completed)" if bar.ending == NEVER else ""
        number = f" {picture.meetings[bar.meeting].number}" if bar.meeting >= 0 else ""
        says = {"step": bar.step, "end": bar.ending, **_arguments(bar.event)}
        if bar.meeting >= 0 and picture.meetings[bar.meeting].differs:
            says["members differ"] = picture.meetings[bar.meeting].differs
        yield {
            "ph": "X",
            "name": f"{bar.name}{number}{never}",
            "cat": bar.kind,
            "dur": max(0, _micros(picture, bar.end) - _micros(picture, bar.start)),
            "args": says,
            **_where(picture, places, bar, row),
        }


def _flows(picture: Picture, places: list[tuple[int, int]], rows: list[int]) -> Iterator[dict[str, Any]]:
    """Yield a flow for each meeting: it starts at the first member, passes the others, and ends at the last."""
    members: dict[int, list[tuple[Bar, int]]] = {}
    for bar, row in zip(picture.bars, rows, strict=True):
        if bar.meeting >= 0:
            members.setdefault(bar.meeting, []).append((bar, row))
    for meeting, bars in members.items():
        bars.sort(key=lambda one: one[0].start)
        for position, (bar, row) in enumerate(bars if len(bars) > 1 else ()):
            phase = "s" if position == 0 else "f" if position == len(bars) - 1 else "t"
            ends = {"bp": "e"} if phase == "f" else {}
            name = {"ph": phase, "name": bar.kind, "cat": bar.kind, "id": meeting + 1}
            yield {**name, **ends, **_where(picture, places, bar, row)}


def _marks(picture: Picture, places: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for mark in picture.marks:
        process, thread = places[mark.lane]
        yield {
            "ph": "i",
            "s": "p" if mark.kind in ("strike", "exit", "crash", "report") else "t",
            "name": mark.name,
            "cat": mark.kind,
            "pid": process,
            "tid": thread,
            "ts": _micros(picture, mark.time),
            "args": {"step": mark.step, **_arguments(mark.event)},
        }


def _where(picture: Picture, places: list[tuple[int, int]], bar: Bar, row: int) -> dict[str, int]:
    process, thread = places[bar.lane]
    return {"pid": process, "tid": thread + row, "ts": _micros(picture, bar.start)}


def _micros(picture: Picture, time: float) -> int:
    return round((time - picture.zero) * 1e6)


def _arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event that say more than its place and time."""
    skipped = ("kind", "n", "seq", "step", "t", "indices", "samples", "contents", "in", "out")
    return {plain(name): shown_value(value) for name, value in event.items() if name not in skipped}
