"""Moments of ranks in one order, as far as there is one: the clocks of two nodes are known but for an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from breakrank.history.reader import History, RankHistory


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
    errors = {event["node"]: event["error_s"] for event in history.seen("clock")}
    return errors.get(_node_of(history, lived), 0.0)


def _has_no_order(
    history: History, group: list[RankHistory], lived: RankHistory, moment: Callable[[RankHistory], float]
) -> bool:
    first = group[0]
    if any(_node_of(history, one) == _node_of(history, lived) for one in group):
        return False
    return moment(lived) - moment(first) <= error_of(history, first) + error_of(history, lived)


def _node_of(history: History, lived: RankHistory) -> str:
    """Return the node of a rank; empty for this machine."""
    spawned = (e for e in history.seen("spawned") if (e["attempt"], e["rank"]) == (lived.attempt, lived.rank))
    return next((event.get("node", "") for event in spawned), "")
