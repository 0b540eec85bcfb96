"""The weight of a sample in the losses of ranks: of those whose gradients a wrapper averages, and beside a control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from breakrank.history.reader import RankHistory
from breakrank.verdict import listed, name_ranks
from breakrank_agent.protocol.events import LossEvent

#: The least steps for which each rank keeps to its weight, and the least share of all steps.
_STEPS, _SHARE = 4, 0.8
#: The relative difference below which two weights are the same.
_EQUAL = 1e-6


class Unequal(NamedTuple):
    """The first step from which ranks weigh otherwise, whether it is for their batches or a factor, and the values."""

    step: int
    batches: bool
    said: str


def find_unequal(ranks: Sequence[RankHistory]) -> Unequal | None:
    """Return how the losses of ranks weigh otherwise for most of the training; None if they do not.

    A weight that changes from step to step is one of the samples, such as the number of their tokens.
    """
    last = min((lived.last_step for lived in ranks), default=0)
    bare = any("bare" in event for lived in ranks for event in lived.of_kind("loss"))
    tables = {} if bare else {lived.rank: _by_step(lived, last) for lived in ranks}
    if len(tables) < 2 or last < _STEPS or not all(tables.values()):
        return None
    # The steps in which nothing changes on any rank; the last batch of an epoch may be another.
    usual = {rank: max(set(table.values()), key=list(table.values()).count) for rank, table in tables.items()}
    kept = [step for step in range(1, last + 1) if all(t.get(step) == usual[rank] for rank, t in tables.items())]
    weights = {rank: _weight(*usual[rank]) for rank in usual}
    low, high = min(weights.values()), max(weights.values())
    if len(kept) < max(_STEPS, _SHARE * last) or high - low <= _EQUAL * abs(high):
        return None
    if len({reduction for _, reduction, _ in usual.values()}) > 1:
        return None
    batches = len({factor for factor, _, _ in usual.values()}) == 1
    return Unequal(kept[0], batches, _said({rank: (usual[rank][2] if batches else usual[rank][0]) for rank in usual}))


class Rescaled(NamedTuple):
    """The ranks that multiply a loss by another number than the control does, and the numbers in words."""

    ranks: tuple[int, ...]
    said: str


def find_rescaled(pairs: Sequence[tuple[RankHistory, RankHistory]], step: int) -> Rescaled | None:
    """Return the ranks that multiply the same mean or sum by another number at a step; None if there are none."""
    here: dict[int, float] = {}
    there: dict[int, float] = {}
    for lived, model in pairs:
        facts = [_by_step(one, step).get(step) for one in (lived, model)]
        if facts[0] is None or facts[1] is None or facts[0][1:] != facts[1][1:]:
            return None
        here[lived.rank], there[lived.rank] = facts[0][0], facts[1][0]
    others = tuple(sorted(rank for rank in here if abs(here[rank] - there[rank]) > _EQUAL * abs(there[rank])))
    return Rescaled(others, f"by {_said(here)}, in the control by {_said(there)}") if others else None


def _by_step(lived: RankHistory, last: int) -> dict[int, tuple[float, str, int]]:
    """Return the facts of the only loss of each step, as far as they are known; nothing if a step has several."""
    events = lived.of_kind("loss")
    if any(event["backward"] != 1 for event in events):
        return {}
    found: dict[int, tuple[float, str, int]] = {}
    for event, until in zip(events, [*(int(e["step"]) for e in events[1:]), last + 1], strict=False):
        found.update(dict.fromkeys(range(int(event["step"]), until), _facts(event)))
    return found


def _facts(event: LossEvent) -> tuple[float, str, int]:
    return event["factor"], event["reduction"], event["elements"]


def _weight(factor: float, reduction: str, elements: int) -> float:
    return factor / elements if reduction == "mean" and elements else factor


def _said(values: dict[int, float]) -> str:
    """Say it: `32 on rank 0 and 16 on rank 1`."""
    by_value: dict[float, list[int]] = {}
    for rank, value in sorted(values.items()):
        by_value.setdefault(value, []).append(rank)
    return listed([f"{value:.6g} on {name_ranks(ranks)}" for value, ranks in by_value.items()])
