"""Losses of ranks that hold shards of one model and are handed one batch: they are one loss, made of all shards.

Such ranks exchange activations in the forward pass. An activation that they have alike is the whole already: a
collective that adds it up makes a multiple of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from breakrank.analysis.digests import by_value
from breakrank.analysis.kinship import find_kin, part_names, shards_of
from breakrank.history.reader import RankHistory
from breakrank.verdict import listed, name_ranks
from breakrank_agent.protocol.events import PointEvent

#: The relative difference below which two losses are the same, and the least steps in which they are not.
_EQUAL, _STEPS = 1e-5, 2
#: The least numbers that are added up: a few may be statistics.
_NUMBERS = 8


class Parted(NamedTuple):
    """The first step at which losses differ, the ranks, and the losses in words."""

    step: int
    ranks: tuple[int, ...]
    said: str


class AddedUp(NamedTuple):
    """The first step at which ranks add up what they have alike, the ranks, the call, and the count of numbers."""

    step: int
    ranks: tuple[int, ...]
    op: str
    site: str
    numbers: int


class _Batch(NamedTuple):
    """A batch that several ranks were handed at a step, which exchange activations, and their losses."""

    step: int
    ranks: tuple[int, ...]
    losses: dict[int, float]
    samples: tuple[int, ...]


def find_parted(ranks: Sequence[RankHistory]) -> Parted | None:
    """Return the first step, if ranks that hold shards of one model come to several losses from there on.

    Losses that differ later alone, or of replicas that differ from the start, have their reason in these replicas.
    """
    if any(kin.unlike for kin in find_kin(ranks)):
        return None
    found: dict[tuple[int, ...], list[_Batch]] = {}
    for batch in _batches(ranks):
        found.setdefault(batch.ranks, []).append(batch)
    for group, batches in found.items():
        if _differ(batches[0]) and sum(map(_differ, batches)) >= _STEPS:
            said = {rank: f"{loss:.6g}" for rank, loss in sorted(batches[0].losses.items())}
            words = [f"{value} on {name_ranks(own)}" for value, own in by_value(said).items()]
            return Parted(batches[0].step, group, listed(words))
    return None


def _differ(batch: _Batch) -> bool:
    low, high = min(batch.losses.values()), max(batch.losses.values())
    return high - low > _EQUAL * max(abs(low), abs(high))


def find_added_up(ranks: Sequence[RankHistory]) -> AddedUp | None:
    """Return the first call by which ranks that hold shards add up what they have alike, some numbers for each sample.

    Numbers of features are statistics, and whole numbers are counts: each may be divided afterwards.
    """
    lives = {lived.rank: lived for lived in ranks}
    found: dict[tuple[int, ...], list[AddedUp]] = {}
    for batch in _batches(ranks):
        own = [[_read(event) for event in _exchanged(lives[rank], batch.step)] for rank in batch.ranks]
        for event, read in zip(_exchanged(lives[batch.ranks[0]], batch.step), own[0], strict=True):
            if read and _is_over(event, batch.samples) and all(read in others for others in own[1:]):
                one = AddedUp(batch.step, batch.ranks, event["op"], event.get("site", ""), read[1])
                found.setdefault(batch.ranks, []).append(one)
                break
    return next((calls[0] for calls in found.values() if len(calls) >= _STEPS), None)


def _read(event: PointEvent) -> tuple[tuple[str, int], int, str] | None:
    """Return the number of a call that adds up, the count and digest of what it read; None for any other."""
    read = event.get("in", ())
    if event.get("reduce") != "SUM" or len(read) != 1 or "of" in read[0]:
        return None
    greatest, least = read[0].get("max"), read[0].get("min")
    if not isinstance(greatest, float) or not isinstance(least, float) or greatest == least or greatest % 1 == 0:
        return None
    return (event["group"], event["c"]), read[0]["n"], read[0]["digest"]


def _is_over(event: PointEvent, samples: Sequence[int]) -> bool:
    """Return whether the tensor of a call has numbers for each sample."""
    shape = next(iter(event.get("shapes", ())), [])
    return prod(shape) >= _NUMBERS and (all(size in shape for size in samples) or prod(samples) in shape)


def _batches(ranks: Sequence[RankHistory]) -> Iterator[_Batch]:
    """Yield each batch that was handed to several ranks, no two of which hold the same shards."""
    for named in by_value({lived.rank: tuple(part_names([lived])) for lived in ranks}).values():
        alike = {lived.rank: lived for lived in ranks if lived.rank in named}
        shards = shards_of([*alike.values()])
        told = {rank: {int(e["step"]): e for e in lived.of_kind("scored")} for rank, lived in alike.items()}
        for step in sorted({step for own in told.values() for step in own}):
            scored = {rank: own[step] for rank, own in told.items() if step in own}
            for group in by_value({rank: (e["batch"], *e["samples"]) for rank, e in scored.items()}).values():
                divided = len({shards[rank] for rank in group}) == len(group)
                if len(group) > 1 and divided and all(_exchanged(alike[rank], step) for rank in group):
                    losses = {rank: scored[rank]["loss"] for rank in group}
                    yield _Batch(step, tuple(group), losses, tuple(scored[group[0]]["samples"]))


def _exchanged(lived: RankHistory, step: int) -> list[PointEvent]:
    """Return the collectives of numbers with a fraction in the forward pass of a step."""
    found: list[PointEvent] = []
    forward = False
    for event in lived.events:
        if event["kind"] != "point" or event["step"] != step:
            continue
        if event["point"] in ("forward", "backward"):
            forward = event["point"] == "forward"
        elif forward and event["point"] == "collective" and "float" in event.get("dtype", "") and "c" in event:
            found.append(event)
    return found
