"""A crowd of ranks: those that matter keep their lanes, and all others become one lane of heat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from breakrank.timeline.model import COLLECTIVE, MEETING, MESSAGE, NEVER, Bar, Picture

#: So many ranks each have a lane; of more than that, these: blamed and waiting ones, and a few to compare them with.
MOST_RANKS, _WAITING, _OTHERS = 64, 24, 8
#: The pieces of time that heat is counted in.
_PIECES = 800


@dataclass(frozen=True)
class Heat:
    """The ranks without a lane of their own: how many of them run, and how many are in a call, piece by piece."""

    ranks: int
    running: Sequence[int]
    calling: Sequence[int]


def part(picture: Picture, verdict: Mapping[str, Any]) -> tuple[Picture, Heat | None]:
    """Return the picture of the ranks that matter, and the heat of the others; None if there are few ranks."""
    ranks = list(dict.fromkeys(lane.rank for lane in picture.lanes))
    if len(ranks) <= MOST_RANKS:
        return picture, None
    chosen = set(_chosen(picture, verdict, ranks))
    kept = [n for n, lane in enumerate(picture.lanes) if lane.rank in chosen]
    return keep(picture, kept), _heat(picture, set(kept), len(ranks) - len(chosen))


def _chosen(picture: Picture, verdict: Mapping[str, Any], ranks: Sequence[int]) -> list[int]:
    """Return the ranks that matter, as many as are to be shown."""
    blamed = [rank for rank in verdict.get("blame", {}).get("ranks", ())]
    blamed += [rank for finding in verdict.get("findings", ()) for rank in finding["ranks"]]
    struck = [picture.lanes[mark.lane].rank for mark in picture.marks if mark.kind in ("strike", "report", "crash")]
    awaited = [rank for peers in picture.waits.values() for rank in peers]
    first = [rank for rank in dict.fromkeys([*blamed, *awaited, *struck]) if rank in set(ranks)][:_WAITING]
    waiting = [picture.lanes[bar.lane].rank for bar in picture.bars if bar.ending == NEVER]
    first = list(dict.fromkeys([*first, *waiting]))[: 2 * _WAITING]
    return [*first, *[rank for rank in ranks if rank not in first][:_OTHERS]]


def keep(picture: Picture, kept: Iterable[int]) -> Picture:
    """Return a picture of some of its lanes. Meetings stay as they are: their members may be elsewhere."""
    new = {old: number for number, old in enumerate(kept)}
    bars = [(n, bar._replace(lane=new[bar.lane])) for n, bar in enumerate(picture.bars) if bar.lane in new]
    marks = [mark._replace(lane=new[mark.lane]) for mark in picture.marks if mark.lane in new]
    waits = {number: picture.waits[old] for number, (old, _) in enumerate(bars) if old in picture.waits}
    lanes = [picture.lanes[old] for old in new]
    return replace(picture, lanes=lanes, bars=[bar for _, bar in bars], marks=marks, waits=waits)


def _heat(picture: Picture, kept: set[int], ranks: int) -> Heat:
    """Count the ranks that have no lane."""
    lives: dict[int, tuple[float, float]] = {}
    calling = [0] * (_PIECES + 1)
    scale = _PIECES / max(picture.last - picture.zero, 1e-9)
    for bar in picture.bars:
        if bar.lane in kept:
            continue
        begun, ended = lives.get(bar.lane, (bar.start, bar.end))
        lives[bar.lane] = min(begun, bar.start), max(ended, bar.end)
        if bar.kind in (COLLECTIVE, MESSAGE, MEETING):
            _count(calling, bar, picture.zero, scale)
    running = [0] * (_PIECES + 1)
    for begun, ended in lives.values():
        _count(running, Bar(0, begun, ended, "", "", 0, "", {}), picture.zero, scale)
    return Heat(ranks, _summed(running), [min(n, ranks) for n in _summed(calling)])


def _count(changes: list[int], bar: Bar, zero: float, scale: float) -> None:
    """Note that a bar begins and ends."""
    first = min(_PIECES - 1, int((bar.start - zero) * scale))
    changes[first] += 1
    changes[min(_PIECES, max(first + 1, int((bar.end - zero) * scale)))] -= 1


def _summed(changes: Sequence[int]) -> list[int]:
    total, counts = 0, []
    for change in changes[:_PIECES]:
        total += change
        counts.append(total)
    return counts
