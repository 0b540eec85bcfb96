"""A picture of which the middle of each lane is left out, where a page could not hold all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from breakrank.timeline.model import DONE, FAILED, LEFT_OUT, NEVER, Bar, Mark, Picture

_One = TypeVar("_One", Bar, Mark)

#: The most bars and marks of a page: with more, its file would have tens of megabytes.
MOST = 600_000


def thin(picture: Picture, near: Set[tuple[int, int]] = frozenset(), most: int = MOST) -> tuple[Picture, int]:
    """Return a picture of at most about so many bars and marks, and how many are left out.

    Each lane keeps its beginning and its end, the (attempt, step) that are `near` something, and all that failed.
    """
    if len(picture.bars) + len(picture.marks) <= most:
        return picture, 0
    share = max(16, most // (2 * max(1, len(picture.lanes))))
    bars = _by_lane(picture, (bar.lane for bar in picture.bars))
    marks = _by_lane(picture, (mark.lane for mark in picture.marks))
    kept_bars = [n for lane in bars for n in _kept(picture, picture.bars, lane, near, share)]
    kept_marks = [n for lane in marks for n in _kept(picture, picture.marks, lane, near, share)]
    rows = _with_gaps(kept_bars, picture)
    new = {old: number for number, old in enumerate(rows) if isinstance(old, int)}
    shown = [picture.bars[one] if isinstance(one, int) else one for one in rows]
    waits = {new[old]: peers for old, peers in picture.waits.items() if old in new}
    left_out = len(picture.bars) - len(kept_bars) + len(picture.marks) - len(kept_marks)
    thinned = replace(picture, bars=shown, marks=[picture.marks[n] for n in kept_marks], waits=waits)
    return thinned, left_out


def _by_lane(picture: Picture, lanes: Iterable[int]) -> list[list[int]]:
    """Return the positions of bars or marks lane by lane; `lanes` are the lanes that they are in."""
    found: list[list[int]] = [[] for _ in picture.lanes]
    for position, lane in enumerate(lanes):
        found[lane].append(position)
    return found


def _kept(
    picture: Picture, all_of: Sequence[_One], lane: Sequence[int], near: Set[tuple[int, int]], share: int
) -> list[int]:
    """Return which of the bars or marks of one lane are kept."""
    first, last = share // 4, len(lane) - share * 3 // 4
    return [
        position
        for place, position in enumerate(lane)
        if place < first or place >= last or _matters(picture, all_of[position], near)
    ]


def _matters(picture: Picture, one: Bar | Mark, near: Set[tuple[int, int]]) -> bool:
    if isinstance(one, Bar) and one.ending in (NEVER, FAILED):
        return True
    if isinstance(one, Mark) and one.kind not in ("access", "sync", "turn"):
        return True
    return (picture.lanes[one.lane].attempt, one.step) in near


def _with_gaps(kept: Sequence[int], picture: Picture) -> list[int | Bar]:
    """Return the positions of bars, with a bar in the place of those that are left out between two of a lane."""
    rows: list[int | Bar] = []
    for before, after in zip([-1, *kept], kept, strict=False):
        one, other = picture.bars[max(before, 0)], picture.bars[after]
        if before >= 0 and after > before + 1 and one.lane == other.lane:
            name = f"{after - before - 1} bars are left out"
            rows.append(Bar(one.lane, one.end, max(one.end, other.start), LEFT_OUT, name, one.step, DONE, {}))
        rows.append(after)
    return rows
