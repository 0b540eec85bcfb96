"""Gradients that are reduced over other ranks than those which hold the parameter, as along a wrong axis of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from breakrank.analysis.collectives import Call, calls_of
from breakrank.history.reader import RankHistory

_REDUCES = ("allreduce_", "reduce_")


class Elsewhere(NamedTuple):
    """The call that reduces a gradient, and the ranks over which it does."""

    call: Call
    ranks: tuple[int, ...]


def reduced_elsewhere(ranks: Sequence[RankHistory], step: int, part: int) -> Elsewhere | None:
    """Return where each of the ranks reduces what has the size of a part at a step, if no such call is among them all.

    None if some rank reduces nothing of that size, or does so in several groups, which may make one together.
    """
    found: list[Elsewhere] = []
    for lived in ranks:
        members = {event["group"]: tuple(event["ranks"]) for event in lived.of_kind("group")}
        size = _size(lived, part)
        calls = [c for c in calls_of(lived) if c.step == step and c.op in _REDUCES and c.site and _numbers(c) == size]
        groups = {call.group for call in calls}
        over = members.get(calls[0].group, ()) if len(groups) == 1 else ()
        if len(over) < 2 or set(over).issuperset(one.rank for one in ranks):
            return None
        found.append(Elsewhere(calls[0], over))
    return found[0] if found else None


def _size(lived: RankHistory, part: int) -> int:
    """Return how many elements a rank has of a part; 0 where that is not on record."""
    known = next(reversed(lived.of_kind("names")), None)
    sizes = known.get("sizes", ()) if known is not None else ()
    return sizes[part] if part < len(sizes) else 0


def _numbers(call: Call) -> int:
    return sum(map(prod, call.shapes)) or -1
