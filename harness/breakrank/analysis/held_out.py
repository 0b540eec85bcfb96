"""Samples that are held out for a validation, and trained on all the same.

A validation on samples of the training is often meant: it shows how well these were learnt. Then nearly all of them
were trained on, or they are drawn from the whole of the dataset. A mistake has other signs: some samples are on both
sides, or no rank validates on samples of its own, and each on those of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from breakrank.analysis.epochs import Epoch, Told, epochs_of, told_apart_by
from breakrank.history.reader import RankHistory

#: The least share of samples that are the same by their content: a dataset may hold some of them twice.
SHARE = 0.05
#: The share of a validation from which on it is meant to be on samples of the training.
_MEANT = 0.9


class Leak(NamedTuple):
    """Samples that were validated on after a rank had trained on them: their number, of how many, and who did so.

    `own` says that one rank alone did, on samples that it had trained on itself.
    """

    samples: int
    of: int
    ranks: tuple[int, ...]
    step: int
    own: bool


def find_leak(ranks: Sequence[RankHistory]) -> Leak | None:
    """Return what leaks from the training of some ranks into a validation; None if nothing does, or it is meant.

    A split that is another one in each epoch has all samples on both sides in the end, as one that is meant: it shows
    at the first validation.
    """
    every = [epochs_of(lived) for lived in ranks]
    return _leak(ranks, every) or _leak(ranks, [_until_validated(epochs) for epochs in every])


def _until_validated(epochs: Sequence[Epoch]) -> list[Epoch]:
    """Return the first validation of a rank with the training before it; nothing if an epoch was under way then."""
    first = next((epoch for epoch in epochs if epoch.validates), None)
    if first is None:
        return []
    before = [epoch for epoch in epochs if epoch.trains and epoch.first["n"] < first.first["n"]]
    return [*before, first] if all(epoch.loads[-1]["n"] < first.first["n"] for epoch in before) else []


def _leak(ranks: Sequence[RankHistory], of_ranks: Sequence[Sequence[Epoch]]) -> Leak | None:
    """Return what leaks from the epochs in which ranks train into those in which they validate."""
    epochs = [epoch for own in of_ranks for epoch in own]
    trained = [epoch for epoch in epochs if epoch.trains]
    wholes = {epoch.dataset for epoch in trained}
    validated = [e for e in epochs if e.validates and (e.dataset not in wholes or not e.dataset or _is_part(e))]
    by = told_apart_by([*trained, *validated]) if trained and validated else None
    if by is None:
        return None
    learnt = {lived.rank: _drawn((e for e in trained if e.rank == lived.rank), by) for lived in ranks}
    asked = {lived.rank: _drawn((e for e in validated if e.rank == lived.rank), by) for lived in ranks}
    every = set[str]().union(*learnt.values())
    wrong = {rank: own.keys() & every for rank, own in asked.items()}
    count, of = len(set[str]().union(*wrong.values())), len(set[str]().union(*asked.values()))
    apart = not any(own.keys() & learnt[rank].keys() for rank, own in asked.items())
    if count <= (0 if by == "index" else SHARE * of) or not (apart or (count < _MEANT * of and _came_round(trained))):
        return None
    who = tuple(rank for rank, samples in wrong.items() if samples)
    step = min(asked[rank][sample] for rank in who for sample in wrong[rank])
    return Leak(count, of, who, step, len(who) == 1 and wrong[who[0]] <= learnt[who[0]].keys())


def _is_part(epoch: Epoch) -> bool:
    return epoch.first.get("draws") == "part"


def _drawn(epochs: Iterable[Epoch], by: Told) -> dict[str, int]:
    """Return the samples of epochs, each with the step at which it was loaded first."""
    found: dict[str, int] = {}
    for epoch in epochs:
        for sample, step in epoch.samples(by):
            found.setdefault(sample, step)
    return found


def _came_round(trained: Sequence[Epoch]) -> bool:
    """Return whether each rank went through an epoch as a whole, as far as that is known.

    Of epochs that were broken off, some samples were never drawn that belong to the training.
    """
    ranks = {epoch.rank for epoch in trained if epoch.is_whole or "begins" not in epoch.first}
    return ranks == {epoch.rank for epoch in trained}
