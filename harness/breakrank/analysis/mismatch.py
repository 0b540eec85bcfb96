"""Compare the calls of one collective, and find the rank whose call is the odd one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from breakrank.analysis.collectives import Call, Group
from breakrank.analysis.digests import outside_majority
from breakrank.analysis.exchanges import EXCHANGES, one_size, unlike_sizes

#: Reductions, which add element to element: the tensors must have one shape. For all other collectives, one size does.
_REDUCE = ("allreduce_", "allreduce_coalesced_", "reduce_", "reduce_scatter_", "_reduce_scatter_base_")
#: The index of the tensor in a call whose size all ranks have alike. Of calls not named here, all tensors or none are.
_OWN = {
    "allgather_": -1,
    "_allgather_base_": -1,
    "gather_": -1,
    "reduce_scatter_": 0,
    "_reduce_scatter_base_": 0,
    "scatter_": 0,
}
#: The most shapes of a call that are on record.
_SHAPES = 16


class Mismatch(NamedTuple):
    """A difference between calls of one collective: its cause, and the value of each rank, in words."""

    cause: str
    values: Mapping[int, str]


def mismatch(calls: Mapping[int, Call], causes: Sequence[str] = ()) -> Mismatch | None:
    """Return the first thing, from the operator down to the shape, that the calls do not have in common; else None.

    `causes` are what they must have in common, if not all.
    """
    exchange = all(call.op in EXCHANGES for call in calls.values())
    kinds = {(call.op, call.root, call.reduce, call.dtype, call.shapes, call.splits) for call in calls.values()}
    # Ranks that exchange several sizes agree by pairs, not by being alike.
    if len(kinds) == 1 and not exchange:
        return None
    for cause in causes or TRAITS:
        trait = TRAITS[cause]
        if cause == "shape mismatch" and exchange:
            unlike = unlike_sizes(calls)
            return Mismatch(cause, unlike) if unlike else None
        values = {rank: said for rank, call in calls.items() if (said := trait(call)) is not None}
        if len(set(values.values())) > 1 and not (cause == "shape mismatch" and _may_differ(calls)):
            return Mismatch(cause, values)
    return None


def _size(call: Call) -> str | None:
    """Say the size, or for a reduction the shape, of the tensors that all ranks must have alike."""
    shapes = call.shapes
    if not shapes:
        return None
    if call.op in EXCHANGES:
        return one_size(call)
    own = _OWN.get(call.op)
    if own is not None:
        if own < 0 and len(shapes) >= _SHAPES:
            return None
        shapes = (shapes[own],)
    if call.op in _REDUCE:
        return " + ".join("×".join(map(str, shape)) or "a number" for shape in shapes)
    sizes = [prod(shape) for shape in shapes]
    return " + ".join(f"{size} element{'' if size == 1 else 's'}" for size in sizes)


def _may_differ(calls: Mapping[int, Call]) -> bool:
    """Return whether ranks may handle several sizes: all gather just these."""
    ordered = [calls[rank] for rank in sorted(calls)]
    if any(call.op != "allgather_" or len(call.shapes) != len(ordered) + 1 for call in ordered):
        return False
    own = tuple(call.shapes[-1] for call in ordered)
    return all(call.shapes[:-1] == own for call in ordered)


#: The traits that calls of one collective have in common, by the cause that is found if they differ.
TRAITS: dict[str, Callable[[Call], str | None]] = {
    "collective mismatch": lambda call: call.name,
    "root mismatch": lambda call: None if call.root is None else f"root {call.root}",
    "reduce op mismatch": lambda call: call.reduce or None,
    "dtype mismatch": lambda call: call.dtype or None,
    "shape mismatch": _size,
}


def odd_ranks(
    values: Mapping[int, Hashable], group: Group, position: int, model: Group | None, trait: Callable[[Call], Hashable]
) -> tuple[int, ...]:
    """Return whose value is the odd one, of calls at one position of a group; all, if that cannot be told.

    The minority's, where there is a majority. Else that of the rank which differs from the same rank of the control
    (`model`), or from what it did itself at this place of its step before.
    """
    apart = outside_majority(values)
    if len(values) == 1 or len(apart) < len(values):
        return tuple(apart or values)
    for before in (_in_control(model), _a_step_before):
        known = {rank: before(group.calls[rank], rank, position) for rank in values}
        if all(call is not None for call in known.values()):
            odd = [rank for rank, call in known.items() if call is not None and trait(call) != values[rank]]
            if 0 < len(odd) < len(values):
                return tuple(sorted(odd))
    return tuple(apart)


def _in_control(model: Group | None) -> Callable[[Sequence[Call], int, int], Call | None]:
    def before(calls: Sequence[Call], rank: int, position: int) -> Call | None:
        there = model.calls.get(rank, ()) if model is not None else ()
        return there[position] if position < len(there) and there[position].step == calls[position].step else None

    return before


def _a_step_before(calls: Sequence[Call], rank: int, position: int) -> Call | None:
    """Return the call at the same place of the rank's step before."""
    step = calls[position].step
    place = sum(call.step == step for call in calls[:position])
    earlier = [call for call in calls[:position] if call.step == step - 1]
    return earlier[place] if step > 1 and place < len(earlier) else None
