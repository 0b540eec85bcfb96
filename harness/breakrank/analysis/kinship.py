"""Kinship of ranks: replicas of each other, by what parameters were before the first step, and by their gradients.

Parameters that all ranks begin with alike are replicas. One that each rank begins with otherwise, and whose gradient
each rank has for itself, is divided between the ranks: a shard of tensor parallelism by hand, or an expert. Ranks that
begin alike hold the same shard. One that ranks begin with otherwise although they reduce its gradient is a replica that
nobody has brought into line, and so is one that a module has got since it was wrapped; of one without a gradient
nothing is known. Shards of a bias may begin alike, as zeros: beside a divided parameter of the same module, one whose
gradient each rank has for itself tells nothing.

Of a parameter that a mesh divides, ranks that have one place along the axes that divide it, and that begin alike, hold
the same shard: along the other axes of the mesh they are replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from breakrank.analysis.digests import by_value
from breakrank.history.reader import RankHistory

#: The words that operators begin with which hand out parts.
_PARTS = ("reduce_scatter", "alltoall")


class Kin(NamedTuple):
    """Ranks that hold the same parts of the parameters. `parts` is None for all parts, where nothing tells them apart.

    `unlike` are those parts among them with which the ranks did not begin alike. `shards` says that a mesh divides the
    parts.
    """

    ranks: tuple[int, ...]
    parts: frozenset[int] | None = None
    unlike: frozenset[int] = frozenset()
    shards: bool = False


class Taken(NamedTuple):
    """The digest of a part before the first step of its optimizer, and of the gradient of that step."""

    before: str
    gradient: str


def shards_of(ranks: Sequence[RankHistory]) -> dict[int, tuple[str, ...]]:
    """Return the digests, before the first step, of the parts that are divided; of each rank none if nothing is."""
    taken = {lived.rank: _first_taken(lived) for lived in ranks}
    parts = sorted(set.intersection(*(set(own) for own in taken.values()))) if taken else []
    divided = [
        part
        for part in parts
        if all(len({own[part][field] for own in taken.values()}) > 1 for field in range(len(Taken._fields)))
    ]
    return {rank: tuple(own[part].before for part in divided) for rank, own in taken.items()}


def find_kin(ranks: Sequence[RankHistory]) -> list[Kin]:
    """Return who holds the same parts as whom, of ranks whose parameters have the same names."""
    world = tuple(lived.rank for lived in ranks)
    taken = {lived.rank: _first_taken(lived) for lived in ranks}
    parts = sorted(set.intersection(*(set(own) for own in taken.values()))) if taken else []
    before = {part: {rank: own[part].before for rank, own in taken.items()} for part in parts}
    apart = [part for part in parts if len(set(before[part].values())) > 1]
    gradients = {part: {own[part].gradient for own in taken.values()} for part in apart}
    late = {part for lived in ranks for e in lived.of_kind("unsynced") for part in e.get("late", ())}
    unlike = frozenset(p for p, held in gradients.items() if p in late or (len(held) == 1 and "" not in held))
    divided = [part for part in apart if part not in unlike]
    if not divided:
        return [Kin(world, None, unlike)]
    whole = frozenset(_all_parts(ranks)) - frozenset(divided) - _beside(divided, taken, part_names(ranks))
    groups: dict[tuple[int, ...], set[int]] = {}
    for part in divided:
        for same in by_value(before[part]).values():
            groups.setdefault(tuple(same), set()).add(part)
    found = [Kin(same, frozenset(held)) for same, held in groups.items() if len(same) > 1]
    if not whole and not found:
        # Nothing is divided where nothing is whole: stages of a pipeline send to each other, ranks with a share of one
        # long vector bring it together in each step, and others train alone.
        return [] if any(map(_sends, ranks)) or all(map(_shares, ranks)) else [Kin(world, None, frozenset(apart))]
    return [*([Kin(world, whole, unlike)] if whole else []), *found]


def find_kin_of_shards(ranks: Sequence[RankHistory]) -> list[Kin]:
    """Return who holds the same shards as whom, of parameters that a mesh divides along some of its axes."""
    taken = {lived.rank: _first_taken(lived) for lived in ranks}
    groups: dict[tuple[int, ...], set[int]] = {}
    shards = {lived.rank: _shards_on_meshes(lived) for lived in ranks}
    for part in sorted({part for own in shards.values() for part in own}):
        held = {
            rank: (own[part], taken[rank][part].before)
            for rank, own in shards.items()
            if own.get(part) and part in taken[rank]
        }
        for same in by_value(held).values():
            groups.setdefault(tuple(same), set()).add(part)
    return [Kin(same, frozenset(parts), shards=True) for same, parts in groups.items() if len(same) > 1]


def _shards_on_meshes(lived: RankHistory) -> dict[int, str]:
    """Return by part which shard a rank has, as its names say that were recorded last."""
    known = next(reversed(lived.of_kind("names")), None)
    return dict(zip(known.get("sharded", ()), known.get("shards", ()), strict=False)) if known is not None else {}


def _beside(divided: Sequence[int], taken: Mapping[int, Mapping[int, Taken]], names: Sequence[str]) -> frozenset[int]:
    """Return the parts beside a divided one in a module, whose gradients are not alike."""
    modules = {names[part].rpartition(".")[0] for part in divided if part < len(names)}
    inside = [part for part, name in enumerate(names) if name.rpartition(".")[0] in modules]
    gradients = {part: {own[part].gradient for own in taken.values() if part in own} for part in inside}
    return frozenset(part for part, held in gradients.items() if len(held) > 1)


def part_names(ranks: Sequence[RankHistory]) -> Sequence[str]:
    """Return the names of the parts of the parameters, by the first rank that has them on record; else none."""
    return next((event["names"] for lived in ranks for event in reversed(lived.of_kind("names"))), ())


def _first_taken(lived: RankHistory) -> dict[int, Taken]:
    """Return by part what its optimizer took at its first step."""
    found: dict[int, Taken] = {}
    for event in lived.of_kind("inputs"):
        for part, (before, gradient) in enumerate(zip(event.get("before", ()), event["gradients"], strict=False)):
            if before and part not in found:
                found[part] = Taken(before, gradient)
    return found


def _all_parts(ranks: Sequence[RankHistory]) -> range:
    """Return the numbers of all parts."""
    return range(max((len(e.get("parts", ())) for lived in ranks for e in lived.payloads("step")), default=0))


def _sends(lived: RankHistory) -> bool:
    """Return whether a rank sends or receives messages as it trains."""
    return any("p" in event and event["step"] for event in lived.points("collective"))


def _shares(lived: RankHistory) -> bool:
    """Return whether a rank takes its part of what ranks add up in each step, or adds up and gathers floats.

    A collective behind the optimizer belongs to the step that follows. A rank that names its shards has told which of
    its parameters are divided.
    """
    if _shards_on_meshes(lived):
        return False
    made: dict[int, set[str]] = {}
    for event in lived.points("collective"):
        if "float" in str(event.get("dtype", "")):
            made.setdefault(event["step"], set()).add(str(event.get("op", "")).lstrip("_"))
    steps = range(2, lived.last_step + 1)
    return bool(steps) and all(_brings_together(made.get(step, ())) for step in steps)


def _brings_together(ops: Collection[str]) -> bool:
    begins = {word for word in (*_PARTS, "allgather", "allreduce", "reduce_") for op in ops if op.startswith(word)}
    return bool(begins.intersection(_PARTS)) or ("allgather" in begins and len(begins) > 1)
