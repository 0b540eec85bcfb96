"""Steps that the scaler of one rank skips for gradients that overflowed, and those of its peers make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from breakrank.history.reader import RankHistory


class Skipped(NamedTuple):
    """The ranks that skipped more steps than others, the first step that they alone skipped, and its line."""

    ranks: tuple[int, ...]
    step: int
    site: str


def skipped_alone(ranks: Sequence[RankHistory], until: int) -> Skipped | None:
    """Return the steps up to one that not all of these ranks skipped; None if all skipped the same.

    A rank that skips a step counts one less from then on: steps are compared up to the first that is not skipped alike.
    """
    skips = {lived.rank: [event for event in lived.of_kind("overflow") if event["step"] <= until] for lived in ranks}
    steps = sorted({int(event["step"]) for own in skips.values() for event in own})
    for step in steps:
        there = {rank: [event for event in own if event["step"] == step] for rank, own in skips.items()}
        most = max(map(len, there.values()))
        guilty = tuple(sorted(rank for rank, own in there.items() if len(own) == most))
        if len(guilty) < len(there):
            return Skipped(guilty, step, there[guilty[0]][0]["site"])
    return None
