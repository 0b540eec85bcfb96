"""The norm by which ranks clip their gradients: each shard belongs into it once, and each replica once.

A group adds up one number of each rank; the squares of the gradients that were there tell what that number is of. A
part whose squares are the same on several ranks is a replica on these. A sum is the norm that clips if the gradients
are scaled afterwards, each time by a number over its square root. It is wrong if it is exactly what comes of some parts
left out, or counted too often.

Ranks that hold shards of one model, and whose own gradients come to one norm, step after step, clip each by its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from breakrank.analysis.kinship import find_kin, part_names
from breakrank.history.reader import RankHistory
from breakrank.verdict import name_ranks

#: The relative difference within which a sum is the right one, that of scales by one norm, and that of rounding.
_RIGHT, _ONE_SCALE, _ROUNDING = 1e-5, 1e-4, 2e-6
#: The least steps in which gradients are clipped.
_STEPS = 2
_NUMBER = re.compile(r"\d+")

#: The squares of the gradient of each part, by rank.
Squares = Mapping[int, Sequence[float]]


class Miscounted(NamedTuple):
    """A norm that is wrong: the first step and its line, the ranks that add it up, and the reason."""

    step: int
    site: str
    ranks: tuple[int, ...]
    said: str


class _Sum(NamedTuple):
    """A sum of one number over a group: its value, and the squares before it and as the optimizer took them.

    `beside` is what belongs to the norm and was not to be added up: each rank has the replicas for itself.
    """

    step: int
    site: str
    value: float
    before: Squares
    taken: Squares
    beside: float = 0.0


class _Share(NamedTuple):
    """One rank's part in a sum: the number, and the squares before it and as the optimizer took them."""

    step: int
    site: str
    number: float
    before: Sequence[float]
    taken: Sequence[float]


def find_miscounted(ranks: Sequence[RankHistory]) -> Miscounted | None:
    """Return the norm by which ranks clip although parts are left out, or counted too often; None without one."""
    names = part_names(ranks)
    found: dict[tuple[str, str, tuple[int, ...]], list[_Sum]] = {}
    right: set[int] = set()
    for one in _sums(ranks):
        judged = _judge(one, names)
        if judged is None:
            right.add(one.step)
        elif judged[0] and _scale(one):
            key = (judged[0], one.site, tuple(sorted(one.before)))
            found.setdefault(key, []).append(one._replace(beside=judged[1]))
    for (said, site, group), sums in found.items():
        clipped = [one for one in sums if one.step not in right]
        if len(clipped) >= _STEPS and _is_norm(clipped):
            return Miscounted(clipped[0].step, site, group, said)
    return None


def find_own_norms(ranks: Sequence[RankHistory]) -> Miscounted | None:
    """Return the norm to which each rank scales what it has for itself, of a model that is divided; None without one.

    Shards are those that are marked as such, and those that ranks begin with otherwise, beside replicas.
    """
    names = part_names(ranks)
    steps = _taken_by_step(ranks)
    divided = _divided(ranks, len(names))
    if len(ranks) < 2 or not divided:
        return None
    found: dict[int, float] = {}
    for step, squares in steps.items():
        norms = [math.sqrt(sum(own)) for own in squares.values()]
        shards = {tuple(own[part] for part in divided if part < len(own)) for own in squares.values()}
        if len(norms) == len(ranks) and len(shards) > 1 and min(norms) > 0 and _spread(norms) <= _ONE_SCALE:
            found[step] = norms[0]
    usual = max(found.values(), key=lambda one: sum(_alike(one, other) for other in found.values()), default=0.0)
    clipped = [step for step, norm in found.items() if _alike(norm, usual)]
    if len(clipped) < _STEPS:
        return None
    said = f"each scales its own to {usual:.3g}, by a norm without the shards of others"
    return Miscounted(clipped[0], "", tuple(sorted(lived.rank for lived in ranks)), said)


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ONE_SCALE * max(one, other)


def _taken_by_step(ranks: Sequence[RankHistory]) -> dict[int, dict[int, Sequence[float]]]:
    """Return the squares that optimizers took, by step and rank."""
    found: dict[int, dict[int, Sequence[float]]] = {}
    for lived in ranks:
        for event in lived.of_kind("squares"):
            if event.get("taken") and event["squares"]:
                found.setdefault(int(event["step"]), {})[lived.rank] = event["squares"]
    return found


def _divided(ranks: Sequence[RankHistory], count: int) -> frozenset[int]:
    """Return the parts of which each rank has a shard."""
    marked = {part for lived in ranks for event in lived.of_kind("names") for part in event.get("sharded", ())}
    if marked:
        return frozenset(marked)
    whole = [kin.parts for kin in find_kin(ranks) if len(kin.ranks) == len(ranks)]
    if len(whole) != 1 or whole[0] is None:
        return frozenset()
    return frozenset(range(count)) - whole[0]


def _is_norm(clipped: Sequence[_Sum]) -> bool:
    """Return whether gradients are scaled by the norm that was added up, and not rather by the right one."""
    own = [_scale(one) * math.sqrt(one.value + one.beside) for one in clipped]
    other = [_scale(one) * math.sqrt(_whole(one.before)) for one in clipped]
    return _spread(own) <= _ONE_SCALE and _spread(own) < _spread(other)


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(values)


def _scale(one: _Sum) -> float:
    """Return the number by which all gradients of a group were scaled after a sum; 0 if they were not."""
    factors = []
    for rank, squares in one.before.items():
        taken = sum(one.taken[rank])
        factors.append(math.sqrt(taken / sum(squares)) if sum(squares) else 0.0)
    low, high = min(factors), max(factors)
    return high if low > 0 and high - low <= _RIGHT * high and abs(high - 1) > _ONE_SCALE else 0.0


def _judge(one: _Sum, names: Sequence[str]) -> tuple[str, float] | None:
    """Return why a sum is not the one of each shard and each replica, and what is not added up.

    The reason is empty if it is no such sum, and None is returned if it is right.
    """
    whole, (apart, alike) = _whole(one.before), _by_kind(one.before)
    replicas = sum(one.before[min(one.before)][part] for part in alike)
    bases = (0.0, replicas)
    if any(abs(whole - beside - one.value) <= _RIGHT * whole for beside in bases):
        return None
    for beside in bases:
        missing = whole - beside - one.value
        for said, difference in _reasons(one.before, apart, [] if beside else alike, names):
            if abs(missing - difference) <= _ROUNDING * whole:
                return said, beside
    return "", 0.0


def _reasons(
    squares: Squares, apart: Sequence[int], alike: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[str, float]]:
    """Yield each reason for which a sum may be wrong, and how much it then lacks; less than nothing if it has more."""
    ranks = sorted(squares)
    for parts in _sets(apart, names):
        held = {rank: sum(squares[rank][part] for part in parts) for rank in ranks}
        said = f"it leaves out the shards of {_say(parts, names)} of"
        others = name_ranks(ranks[1:])
        yield f"{said} {others}", sum(held.values()) - held[ranks[0]]
        yield f"{said} all ranks", sum(held.values())
    # If nothing is divided, a sum over all ranks is that of each rank times a number, which anyone may divide by.
    for parts in _sets(alike, names) if apart else ():
        once = sum(squares[ranks[0]][part] for part in parts)
        yield f"it has {_say(parts, names)}, a replica, once for each rank", -(len(ranks) - 1) * once


def _by_kind(squares: Squares) -> tuple[list[int], list[int]]:
    """Return the parts of which each rank of a group has a shard, and those of which each has a replica."""
    values = {part: [own[part] for own in squares.values()] for part in range(len(next(iter(squares.values()))))}
    apart = [part for part, held in values.items() if len(set(held)) == len(held)]
    return apart, [part for part, held in values.items() if len(set(held)) == 1 and held[0]]


def _sets(parts: Sequence[int], names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return sets of parts that may be counted otherwise: all, those of one kind in several layers, and each one."""
    by_name: dict[str, list[int]] = {}
    for part in parts:
        plain = _NUMBER.sub("*", names[part]) if part < len(names) else ""
        for word in dict.fromkeys((plain, *plain.split("."))):
            by_name.setdefault(word, []).append(part)
    found = [tuple(parts), *map(tuple, by_name.values()), *((part,) for part in parts)]
    return list(dict.fromkeys(one for one in found if one))


def _say(parts: Sequence[int], names: Sequence[str]) -> str:
    first = names[parts[0]] if parts[0] < len(names) else f"parameter {parts[0]}"
    return first if len(parts) == 1 else f"{first} and {len(parts) - 1} more"


def _whole(squares: Squares) -> float:
    """Return the square of the norm of all: of each part, what several ranks have alike counts once."""
    return sum(sum(set(held)) for held in zip(*squares.values(), strict=True))


def _sums(ranks: Sequence[RankHistory]) -> Iterator[_Sum]:
    """Yield each sum of one number for which the squares of all ranks of a group are on record."""
    members = {e["group"]: tuple(e["ranks"]) for lived in ranks for e in lived.of_kind("group")}
    shares = {lived.rank: _shares(lived) for lived in ranks}
    for group, number in sorted({call for own in shares.values() for call in own}):
        held = {rank: own[group, number] for rank, own in shares.items() if (group, number) in own}
        sizes = {len(squares) for share in held.values() for squares in (share.before, share.taken)}
        if set(held) == set(members.get(group, ())) and len(held) > 1 and len(sizes) == 1:
            first = held[min(held)]
            before = {rank: share.before for rank, share in held.items()}
            taken = {rank: share.taken for rank, share in held.items()}
            yield _Sum(first.step, first.site, sum(share.number for share in held.values()), before, taken)


def _shares(lived: RankHistory) -> dict[tuple[str, int], _Share]:
    """Return a rank's part in each sum, by the group and the number of the call."""
    found: dict[tuple[str, int], _Share] = {}
    before: Sequence[float] = ()
    waiting: dict[tuple[str, int], _Share] = {}
    for event in lived.events:
        if event["kind"] == "squares" and event.get("taken"):
            found.update({call: share._replace(taken=event["squares"]) for call, share in waiting.items()})
            waiting = {}
        elif event["kind"] == "squares":
            before = event["squares"]
        elif event["kind"] == "point" and event["point"] == "collective" and before:
            read = event.get("in", ())
            number = read[0].get("sum") if len(read) == 1 else None
            if "c" in event and event.get("reduce") == "SUM" and isinstance(number, float):
                site = event.get("site", "")
                waiting[event["group"], event["c"]] = _Share(event["step"], site, number, before, ())
            before = ()
    return found
