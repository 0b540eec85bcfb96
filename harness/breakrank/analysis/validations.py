"""Validations on other samples than the control's: a result that is of too few of them, or of some twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from breakrank.analysis.epochs import Epoch, Told, epochs_of, told_apart_by
from breakrank.history.reader import History, RankHistory


class Otherwise(NamedTuple):
    """The numbers of samples that are left out, come too often, and are none of the control's, with ranks and step."""

    lost: int
    doubled: int
    unknown: int
    ranks: tuple[int, ...]
    step: int

    def said(self) -> str:
        """Say the numbers."""
        words = {"left out": self.lost, "too often": self.doubled, "that the control has not": self.unknown}
        return ", ".join(f"{count} {how}" for how, count in words.items() if count)


def validated_otherwise(history: History, control: History) -> Otherwise | None:
    """Return the first validation of all ranks together that is on other samples than the control's; None for none.

    A job that was started again may have validated as often as it likes.
    """
    if len(history.attempts) > 1 or len(control.attempts) > 1:
        return None
    here, there = _rounds(history.last), _rounds(control.last)
    if len(here) != len(there):
        return None
    for one, other in zip(here, there, strict=True):
        by = told_apart_by([*one, *other])
        mine, its = _drawn(one, by), _drawn(other, by)
        if by is None or mine == its:
            continue
        unknown = sum(count for sample, count in mine.items() if sample not in its)
        ranks = tuple(epoch.rank for epoch in one)
        return Otherwise(
            (its - mine).total(), (mine - its).total() - unknown, unknown, ranks, int(one[0].first["step"])
        )
    return None


def _rounds(ranks: Sequence[RankHistory]) -> list[tuple[Epoch, ...]]:
    """Return the validations that all ranks made, each with the one of every rank."""
    own = [[epoch for epoch in epochs_of(lived) if epoch.validates] for lived in ranks if lived.ended_well]
    return [*zip(*own, strict=False)]


def _drawn(epochs: Sequence[Epoch], by: Told | None) -> Counter[str]:
    return Counter(sample for epoch in epochs for sample, _ in epoch.samples(by or "content"))
