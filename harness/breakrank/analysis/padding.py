"""Validations that ranks share out and add up, in which samples come twice so that all ranks have as many.

A rank that collects the others' answers may cut off what was added, and one that keeps its sum to itself counts for
itself: only sums that go through a reduction, and nothing else, are of all that was drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from breakrank.analysis.epochs import Epoch, epochs_of, told_apart_by, trains_at
from breakrank.history.reader import RankHistory


class Padding(NamedTuple):
    """Samples that a validation draws more than once: their number, of how many, the ranks, and the step."""

    samples: int
    of: int
    ranks: tuple[int, ...]
    step: int


def find_padding(ranks: Sequence[RankHistory]) -> Padding | None:
    """Return what fills up the shares of a validation that the ranks add up; None if nothing does."""
    validated = [[epoch for epoch in epochs_of(lived) if epoch.validates] for lived in ranks]
    for epochs in zip(*validated, strict=False):
        whole = all(epoch.is_whole and "padded" in epoch.first for epoch in epochs)
        if not whole or told_apart_by(epochs) != "index":
            continue
        drawn = Counter(sample for epoch in epochs for sample, _ in epoch.samples("index"))
        added = sum(drawn.values()) - len(drawn)
        # Fewer than there are ranks: of more, the ranks have shares that overlap, and one rank draws none for others.
        pairs = zip(ranks, epochs, strict=True)
        if 0 < added < len(ranks) and all(_only_reduces(lived, epoch) for lived, epoch in pairs):
            who = tuple(lived.rank for lived in ranks)
            return Padding(added, len(drawn), who, int(epochs[0].first["step"]))
    return None


def _only_reduces(lived: RankHistory, epoch: Epoch) -> bool:
    """Return whether the collectives of a rank, from a validation to the next training, are reductions alone."""
    begun, ops, point = False, list[str](), trains_at(lived)
    for event in lived.events:
        begun = begun or event is epoch.first
        if begun and event["kind"] == "point":
            if event["point"] == point:
                break
            if event["point"] == "collective" and event.get("op"):
                ops.append(event["op"])
    data = [op for op in ops if "barrier" not in op]
    return bool(data) and all("reduce" in op and "scatter" not in op for op in data)
