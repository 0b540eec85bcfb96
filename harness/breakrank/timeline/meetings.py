"""Meetings: calls of several ranks that are one collective or one message, and whether they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from breakrank.analysis.collectives import groups
from breakrank.analysis.mismatch import mismatch
from breakrank.analysis.wait_for import SENDS
from breakrank.files.bounded import plain
from breakrank.history.reader import History
from breakrank.timeline.model import COLLECTIVE, MESSAGE, Bar, Lane, Meeting

#: The most ranks that are named where calls differ.
_NAMED = 8


def join(history: History, lanes: Sequence[Lane], bars: Sequence[Bar]) -> tuple[list[Bar], list[Meeting]]:
    """Return the bars, each with its meeting, and the meetings."""
    found: dict[tuple[Any, ...], int] = {}
    meetings: list[Meeting] = []
    sent: Counter[tuple[Any, ...]] = Counter()
    joined = []
    for bar in bars:
        place = _place(lanes[bar.lane], bar, sent)
        if place is not None:
            if place not in found:
                found[place] = len(meetings)
                meetings.append(Meeting(lanes[bar.lane].attempt, plain(place[1]), int(place[-1])))
            bar = bar._replace(meeting=found[place])
        joined.append(bar)
    for (attempt, group, number), (differs, absent) in _objections(history).items():
        at = found.get((attempt, group, number))
        if at is not None:
            meetings[at] = meetings[at]._replace(differs=differs, absent=absent)
    return joined, meetings


def _place(lane: Lane, bar: Bar, sent: Counter[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """Return what the members of a meeting have in common; None for a bar that is in no meeting."""
    event = bar.event
    if bar.kind == COLLECTIVE and "c" in event:
        return lane.attempt, event.get("group", ""), event["c"]
    peer = event.get("peer")
    if bar.kind != MESSAGE or not isinstance(peer, int) or peer < 0:
        return None
    ends = (lane.rank, peer) if event.get("op") in SENDS else (peer, lane.rank)
    way = (lane.attempt, event.get("group", ""), *ends, event.get("tag", 0))
    sent[lane.rank, way] += 1
    return (*way, sent[lane.rank, way])


def _objections(history: History) -> Mapping[tuple[int, str, int], tuple[str, tuple[int, ...]]]:
    """Return in what the calls of a collective differ, and which members of its group never came to it."""
    found = {}
    for attempt in history.attempts:
        for group in groups(history, attempt):
            by_number: dict[int, dict[int, Any]] = {}
            for rank, calls in group.calls.items():
                for call in calls:
                    by_number.setdefault(call.number, {})[rank] = call
            for number, calls_of in by_number.items():
                apart = mismatch(calls_of) if len(calls_of) > 1 else None
                absent = tuple(rank for rank in group.ranks if rank not in calls_of)
                if apart is not None or absent:
                    words = "" if apart is None else f"{apart.cause}: {_values(apart.values)}"
                    found[attempt, group.name, number] = words, absent
    return found


def _values(values: Mapping[int, str]) -> str:
    shown = [f"rank {rank} {plain(value)}" for rank, value in sorted(values.items())]
    return ", ".join(shown[:_NAMED]) + (f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else "")
