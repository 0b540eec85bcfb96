"""Where a state comes from: the steps of which attempts are contained in what an attempt restored."""

from __future__ import annotations

from typing import NamedTuple

from breakrank.history import History, RankHistory
from breakrank_agent.history import Event


class Stretch(NamedTuple):
    """The first `steps` steps of one attempt."""

    attempt: int
    steps: int


def lineage(history: History, attempt: int, rank: int) -> list[Stretch]:
    """Return the stretches of earlier attempts that the state of `rank` at the start of `attempt` contains.

    They are oldest first. A restored file is known by its digest: the last save of an earlier attempt with the same
    one. A rank that restored nothing by itself has what the lowest rank that did restored (and sent it).
    """
    restored = _restored(history, attempt, rank)
    saved = _saved(history, attempt, restored["file"]) if restored is not None else None
    if saved is None:
        return []
    return [*lineage(history, saved.attempt, rank), saved]


def steps_before(history: History, attempt: int, rank: int) -> int:
    """Return how many steps the state of `rank` contained when `attempt` began."""
    return sum(stretch.steps for stretch in lineage(history, attempt, rank))


def restores(lived: RankHistory) -> list[Event]:
    """Return the restores of a rank that were not given up with an exception."""
    kept: list[Event] = []
    for event in lived.events:
        if event["kind"] == "payload" and event["of"] == "restore":
            kept.append(event)
        elif event["kind"] == "raised" and event["point"] == "restore" and kept:
            kept.pop()
    return kept


def _restored(history: History, attempt: int, rank: int) -> Event | None:
    """Return the restore that a rank began from: the last one before its first step ended."""
    ranks = sorted(history.attempt(attempt), key=lambda lived: (lived.rank != rank, lived.rank))
    for lived in ranks:
        ends = [i for i, e in enumerate(lived.events) if e["kind"] == "point" and e["point"] == "step"]
        before = RankHistory(attempt, lived.rank, lived.events[: ends[0]] if ends else lived.events)
        found = restores(before)
        if found:
            return found[-1]
    return None


def _saved(history: History, before: int, file: str) -> Stretch | None:
    """Return what the last save of `file` in the attempts before `before` contains of its attempt."""
    for attempt in reversed([a for a in history.attempts if a < before]):
        saves = [e for lived in history.attempt(attempt) for e in lived.payloads("save") if e["file"] == file]
        if saves:
            return Stretch(attempt, max(int(e["done"]) for e in saves))
    return None
