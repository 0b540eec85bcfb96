"""The law engine: a digest per (attempt, rank, step, name), compared by a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from breakrank.history.reader import RankHistory

_Value = TypeVar("_Value")


class Place(NamedTuple):
    """A place at which ranks are compared: an attempt, a step of it, and the name of the value."""

    attempt: int
    step: int
    name: str


#: The fields by which parameters are compared.
Compared = Literal["params", "norm"]
#: The values that are compared at one place, by rank.
Values = Mapping[int, Any]
#: The values that are compared at all places, in the order of the places.
Table = dict[Place, dict[int, Any]]
#: A function that returns the ranks that break the law at a place; none if the law holds.
Rule = Callable[[Place, Values], Sequence[int]]


@dataclass(frozen=True)
class Breach:
    """A law that does not hold at one place: which ranks break it, and what every rank had."""

    place: Place
    ranks: tuple[int, ...]
    values: Values


def steps(ranks: Iterable[RankHistory], name: Compared = "params") -> Table:
    """Return what the ranks recorded at the end of every step: `params` (a digest) or `norm` (a number)."""
    found = [
        (Place(lived.attempt, int(event["step"]), name), lived.rank, event[name])
        for lived in ranks
        for event in lived.payloads("step")
        if event.get(name) is not None
    ]
    return _table(found)


def results(ranks: Iterable[RankHistory], name: Compared = "params") -> dict[int, Any]:
    """Return by rank what its main module left behind; where the end says nothing, what the last step did."""
    found = {}
    for lived in ranks:
        value = lived.end.get(name) if lived.end is not None else None
        if value is None:
            value = next((e[name] for e in reversed(lived.payloads("step")) if e.get(name) is not None), None)
        if value is not None:
            found[lived.rank] = value
    return found


def looked_at_before(table: Iterable[Place], place: Place) -> int | None:
    """Return the last step before a place that was digested, if steps between them were not; else None."""
    there = [p.step for p in table if p.attempt == place.attempt and p != place and p.name != "result"]
    before = max((step for step in there if step <= place.step), default=place.step)
    return before if before < place.step - 1 else None


def _table(found: Iterable[tuple[Place, int, Any]]) -> Table:
    table: Table = {}
    for place, rank, value in sorted(found, key=lambda f: f[:2]):
        table.setdefault(place, {})[rank] = value
    return table


def breaches(table: Table, rule: Rule) -> list[Breach]:
    """Return the places at which the rule does not hold, in order."""
    judged = ((place, tuple(rule(place, values)), values) for place, values in table.items())
    return [Breach(place, ranks, values) for place, ranks, values in judged if ranks]


def alike(place: Place, values: Values) -> Sequence[int]:
    """Hold all ranks to one value: return the ranks outside the majority, or every rank if there is none."""
    return outside_majority(values)


def outside_majority(values: Values) -> list[int]:
    """Return the ranks that have not what most have; every rank if there is no majority, none if all are alike."""
    counts = Counter(values.values()).most_common(2)
    if len(counts) < 2:
        return []
    majority = counts[0][0] if counts[0][1] > counts[1][1] else None
    return sorted(rank for rank, value in values.items() if majority is None or value != majority)


def by_value(values: Mapping[int, _Value]) -> dict[_Value, list[int]]:
    """Return the ranks that have each value, in the order of the values given."""
    ranks: dict[_Value, list[int]] = {}
    for rank, value in values.items():
        ranks.setdefault(value, []).append(rank)
    return ranks


def like(model: Table, same: Callable[[Any, Any], bool]) -> Rule:
    """Return the rule that each rank has what the same rank of `model` had at the same step, whatever the attempt."""
    by_step = {(place.step, place.name): values for place, values in model.items()}

    def rule(place: Place, values: Values) -> Sequence[int]:
        expected = by_step.get((place.step, place.name), {})
        return sorted(r for r, value in values.items() if r in expected and not same(value, expected[r]))

    return rule


def within(tolerance: float) -> Callable[[Any, Any], bool]:
    """Return whether two numbers are equal within a relative tolerance; NaN equals nothing."""
    return lambda one, other: bool(abs(one - other) <= tolerance * max(abs(one), abs(other)))
