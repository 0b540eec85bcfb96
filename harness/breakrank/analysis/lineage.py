"""The lineage of a state: the steps of earlier attempts that are contained in what an attempt restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from breakrank.analysis import digests
from breakrank.analysis.digests import Compared
from breakrank.history.reader import History, RankHistory
from breakrank_agent.protocol.events import PayloadEvent


class Stretch(NamedTuple):
    """The first `steps` steps of one attempt."""

    attempt: int
    steps: int


def lineage(history: History, attempt: int, rank: int) -> list[Stretch]:
    """Return the stretches of earlier attempts that the state of `rank` at the start of `attempt` contains.

    They are oldest first. A restored file is known by the digest of its bytes, or where a digest is missing by its
    path, or by the name that it got right after the save: it is the last such save of an earlier attempt. A rank that
    restored nothing by itself has what the lowest rank that did restored, and sent to it.
    """
    if attempt <= min(history.attempts, default=attempt):
        return []
    restored = _restored(history, attempt, rank)
    saved = _saved(history, attempt, restored) if restored is not None else None
    if saved is None:
        return []
    return [*lineage(history, saved.attempt, rank), saved]


def steps_before(history: History, attempt: int, rank: int) -> int:
    """Return how many steps the state of `rank` contained when `attempt` began."""
    return sum(stretch.steps for stretch in lineage(history, attempt, rank))


class Parting(NamedTuple):
    """The first step after which a rank is not as the control was after as many steps of the whole training."""

    attempt: int
    step: int
    of_control: int


def first_parting(
    history: History, lived: RankHistory, model: RankHistory, name: Compared, same: Callable[[Any, Any], bool]
) -> Parting | None:
    """Return where a rank parts from the control, step by step, from the steps on that its last attempt contains.

    `name` is the value that is compared. An attempt that restored what no record shows is known by a step of the
    control after which there was the same.
    """
    there = _by_step(model, name)
    stretches = lineage(history, lived.attempt, lived.rank)
    before = 0
    if not stretches and lived.attempt:
        first = next(iter(_by_step(lived, name).items()), None)
        before = next((step - first[0] for step, value in there.items() if first and same(value, first[1])), 0)
    for attempt, steps in [*stretches, Stretch(lived.attempt, lived.last_step)]:
        here = _by_step(history.ranks[attempt, lived.rank], name) if (attempt, lived.rank) in history.ranks else {}
        for step, value in here.items():
            if step <= steps and before + step in there and not same(value, there[before + step]):
                return Parting(attempt, step, before + step)
        before += steps
    return None


def _by_step(lived: RankHistory, name: Compared) -> dict[int, Any]:
    """Return what a rank recorded at the end of each step."""
    return {place.step: values[lived.rank] for place, values in digests.steps([lived], name).items()}


def _restored(history: History, attempt: int, rank: int) -> PayloadEvent | None:
    """Return the restore that a rank began from: the last one before its first step ended."""
    ranks = sorted(history.attempt(attempt), key=lambda lived: (lived.rank != rank, lived.rank))
    for lived in ranks:
        ends = (i for i, e in enumerate(lived.events) if e["kind"] == "point" and e["point"] == "step")
        before = RankHistory(attempt, lived.rank, lived.events[: next(ends, len(lived.events))])
        found = before.payloads("restore")
        if found:
            return found[-1]
    return None


def _saved(history: History, before: int, restored: PayloadEvent) -> Stretch | None:
    """Return what the last save of the restored file in the attempts before `before` contains of its attempt."""
    for attempt in reversed([a for a in history.attempts if a < before]):
        ranks = history.attempt(attempt)
        saves = [e for lived in ranks for e in lived.payloads("save") if _same_file(lived, e, restored)]
        if saves:
            return Stretch(attempt, max(int(e["done"]) for e in saves))
    return None


def _same_file(saver: RankHistory, saved: PayloadEvent, restored: PayloadEvent) -> bool:
    """Return whether a save wrote what a restore read; a file without a digest may have been renamed after its save."""
    if saved["file"] is not None and restored["file"] is not None:
        return bool(saved["file"] == restored["file"])
    renames = [e["path"] for e in saver.points("write") if e["how"] == "rename" and e["t"] >= saved["t"]]
    return restored["path"] in (saved["path"], *(renames[:1] if saved["file"] is None else ()))
