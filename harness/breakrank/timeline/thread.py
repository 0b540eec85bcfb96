"""One thread of a rank, event by event: bars that begin and end, and marks in between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from breakrank.analysis.wait_for import SPOKEN, key
from breakrank.files.bounded import plain
from breakrank.timeline.model import (
    COLLECTIVE,
    DONE,
    FAILED,
    INNER,
    MEETING,
    MESSAGE,
    NEVER,
    NEXT,
    PHASE,
    STRIKE,
    UNKNOWN,
    Bar,
    Mark,
)

#: A time beyond is none: damage, or a lie.
_MOST_TIME = 1e9
#: Kinds of events that are shown as marks, beside accesses and strikes.
_REMARKS = frozenset(
    (
        *("raised", "report", "end", "child", "unsynced", "lack", "cut", "changed", "overwritten", "stray", "unzeroed"),
        *("untrained", "assigned", "dropout", "frozen", "forgotten", "spectral", "scaled_clip", "overflow"),
        "unawaited",
    )
)
#: Kinds of events that belong to a bar, or say what a rank is; the rest is counted as not drawn.
_PARTS = frozenset(("rank", "point", "payload", "done", "rendezvous", "grouping", "group", "note"))
#: The longest that a name on the page gets.
_NAME = 80


def time_of(event: Mapping[str, Any], otherwise: float) -> float:
    """Return the time of an event, or another one where it has none that can be."""
    time = event.get("t")
    if isinstance(time, (int, float)) and math.isfinite(time) and 0 < time < _MOST_TIME:
        return float(time)
    return otherwise


def name_of(text: object) -> str:
    """Return a name as the page shows it: on one line, and short."""
    said = plain(text)
    return said if len(said) <= _NAME else said[: _NAME - 1] + "…"


@dataclass
class _Open:
    """A bar whose end was not seen yet."""

    start: float
    kind: str
    name: str
    step: int
    event: Mapping[str, Any]


@dataclass
class Thread:
    """Takes the events of one thread in their order; `bars` and `marks` are what it came to so far."""

    lane: int
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    undrawn: dict[str, int] = field(default_factory=dict)
    seen: float = 0.0
    over: bool = False
    _phase: _Open | None = None
    _inner: _Open | None = None
    _calls: dict[Any, _Open] = field(default_factory=dict)
    _strikes: dict[int, _Open] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        self.seen = now = max(self.seen, time_of(event, self.seen))
        kind = str(event.get("kind"))
        if self._inner is not None and kind != "payload":
            self._add(self._inner, now, NEXT)
            self._inner = None
        if kind == "point":
            self._enter(event, now)
        elif kind == "done":
            self._close_call(key(event), now, event)  # type: ignore[arg-type]
        elif kind in ("rendezvous", "grouping"):
            self._meet(kind, event, now)
        elif kind == "passed":
            self._pass(str(event["point"]), now)
        elif kind == "payload":
            self._paid(str(event.get("of")), now)
        elif kind in ("access", "sync"):
            self._access(event, now)
        elif kind == "strike":
            self._strike(event, now)
        elif kind in _REMARKS:
            self._remark(kind, event, now)
        elif kind not in _PARTS:
            self.undrawn[name_of(kind)] = self.undrawn.get(name_of(kind), 0) + 1

    def finish(self, end: float, ended_well: bool) -> None:
        """Close what is still open, when the rank has ended or nothing more is on record."""
        end = max(end, self.seen)
        lost = UNKNOWN if ended_well else NEVER
        for place in list(self._calls):
            self._add(self._calls.pop(place), end, lost)
        stood = any(bar.ending == NEVER for bar in self.bars)
        if self._inner is not None:
            self._add(self._inner, end, lost)
        if self._phase is not None:
            over = self.over or self._phase.name == "end"
            ending = NEXT if over or ended_well else UNKNOWN if stood else NEVER
            self._add(self._phase, end, ending)
        for opened in self._strikes.values():
            self._add(opened, end, UNKNOWN)
        self._phase = self._inner = None

    def lift_all(self, now: float) -> None:
        """End the bars of all strikes, since the rank is gone."""
        for strike in list(self._strikes):
            self.lift(strike, now)

    def lift(self, strike: int, now: float) -> None:
        """End a strike's bar, since the strike was undone."""
        opened = self._strikes.pop(strike, None)
        if opened is not None:
            self._add(opened, max(now, opened.start), DONE)

    def _add(self, opened: _Open, end: float, ending: str) -> None:
        self.bars.append(Bar(self.lane, opened.start, end, opened.kind, opened.name, opened.step, ending, opened.event))

    def _enter(self, event: Mapping[str, Any], now: float) -> None:
        """Begin a call, or the next phase; the phase before lasts until then."""
        point, step = str(event["point"]), int(event["step"])
        if point == "collective":
            op = str(event.get("op", "collective"))
            kind = MESSAGE if "p" in event else COLLECTIVE
            place = key(event) if "c" in event or "p" in event else ("", event.get("n"))  # type: ignore[arg-type]
            self._close_call(place, now, {})
            self._calls[place] = _Open(now, kind, name_of(SPOKEN.get(op, op)), step, event)
            return
        if point == "write":
            self._inner = _Open(now, INNER, point, step, event)
            return
        if self._phase is not None:
            self._add(self._phase, now, NEXT)
        self._phase = _Open(now, PHASE, point, step, event)

    def _close_call(self, place: Any, now: float, event: Mapping[str, Any]) -> None:
        opened = self._calls.pop(place, None)
        if opened is not None:
            self._add(opened, now, FAILED if event.get("error") else DONE if event else UNKNOWN)

    def _paid(self, of: str, now: float) -> None:
        """End the phase that a payload is the result of."""
        if self._inner is not None and of == self._inner.name:
            self._add(self._inner, now, DONE)
            self._inner = None
        elif self._phase is not None and of == self._phase.name and of != "end":
            self._add(self._phase, now, DONE)
            self._phase = None

    def _pass(self, point: str, now: float) -> None:
        """End a forward or a backward pass; one in whose midst another phase began has its end already."""
        if self._phase is not None and self._phase.name == point:
            self._add(self._phase, now, DONE)
            self._phase = None

    def _meet(self, kind: str, event: Mapping[str, Any], now: float) -> None:
        name = "rendezvous" if kind == "rendezvous" else "new group"
        if event["phase"] == "enter":
            self._calls[kind] = _Open(now, MEETING, name, int(event["step"]), event)
        else:
            self._close_call(kind, now, event)

    def _access(self, event: Mapping[str, Any], now: float) -> None:
        turn = event.get("turn")
        turn = turn if isinstance(turn, int) else event.get("pick")
        placed = turn if isinstance(turn, int) and 0 <= turn < 1 << 40 else -1
        if event["kind"] == "access":
            verb = {"r": "reads", "w": "writes", "rw": "updates"}[event["mode"]]
            name, kind = f"{verb} in {str(event['op']).split('.')[0]}", "access"
        else:
            name, kind = f"{event['do']} {event['key']}", "sync"
        self._mark(kind, name, event, now, placed)

    def _strike(self, event: Mapping[str, Any], now: float) -> None:
        number, phase = int(event["strike"]), str(event["phase"])
        if phase == "fired":
            self._strikes[number] = _Open(now, STRIKE, f"strike {number}", int(event["step"]), event)
        self._mark("strike", f"strike {number} {phase}", event, now)

    def _remark(self, kind: str, event: Mapping[str, Any], now: float) -> None:
        name = kind
        if kind == "raised":
            name = f"raised {event['type']}"
            if self._phase is not None and self._phase.name == event["point"]:
                self._add(self._phase, now, FAILED)
                self._phase = None
        elif kind == "report":
            name = f"reported {event['type'] or 'exit code ' + str(event['code'])}"
            self.over = True
        elif kind == "end":
            name, self.over = f"main module {event['how']}", True
        self._mark(kind, name, event, now)

    def _mark(self, kind: str, name: str, event: Mapping[str, Any], now: float, turn: int = -1) -> None:
        step = event.get("step", 0)
        self.marks.append(Mark(self.lane, now, kind, name_of(name), int(step), event, turn))
