"""Moments of ranks in one order, as far as there is one: the clocks of two nodes are known but for an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from breakrank.history.reader import History, RankHistory


class NodeClock(NamedTuple):
    """The clock by which a rank's times are: its node, empty for this machine, and the error of its offset."""

    node: str = ""
    error_s: float = 0.0


def in_order(
    history: History, ranks: Iterable[RankHistory], moment: Callable[[RankHistory], float]
) -> list[RankHistory]:
    """Return ranks in the order of their moments.

    Those of different nodes that are no further apart than the clocks may be wrong have no order: they come by number.
    """
    groups: list[list[RankHistory]] = []
    for lived in sorted(ranks, key=lambda one: (moment(one), one.rank)):
        if groups and _has_no_order(history, groups[-1], lived, moment):
            groups[-1].append(lived)
        else:
            groups.append([lived])
    return [lived for group in groups for lived in sorted(group, key=lambda one: one.rank)]


def error_of(history: History, lived: RankHistory) -> float:
    """Return by how many seconds the times of a rank's events may be wrong; 0 for one of this machine."""
    return clock_of(history, lived).error_s


def clock_of(history: History, lived: RankHistory) -> NodeClock:
    """Return the clock of a rank."""
    node = history.nodes.get((lived.attempt, lived.rank), "")
    errors = {event["node"]: event["error_s"] for event in history.seen("clock")} if node else {}
    return NodeClock(node, errors.get(node, 0.0))


def clocks_of(history: History, attempt: int) -> dict[int, NodeClock]:
    """Return the clocks of the ranks of an attempt, by rank; none if one clock has all times."""
    clocks = {lived.rank: clock_of(history, lived) for lived in history.attempt(attempt)}
    return clocks if len({clock.node for clock in clocks.values()}) > 1 else {}


def _has_no_order(
    history: History, group: list[RankHistory], lived: RankHistory, moment: Callable[[RankHistory], float]
) -> bool:
    own, first = clock_of(history, lived), clock_of(history, group[0])
    if any(clock_of(history, one).node == own.node for one in group):
        return False
    return moment(lived) - moment(group[0]) <= first.error_s + own.error_s
