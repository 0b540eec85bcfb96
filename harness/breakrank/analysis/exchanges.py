"""Compare what ranks send each other in an all-to-all with what each expects to receive. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from breakrank.analysis.collectives import Call

#: Collectives in which a rank may send each other rank another size.
EXCHANGES = ("alltoall_", "alltoall_base_")


class _Sizes(NamedTuple):
    """The elements that a rank receives from each rank, and those that it sends to each, in the group's order."""

    received: Sequence[int]
    sent: Sequence[int]


def unlike_sizes(calls: Mapping[int, Call]) -> dict[int, str]:
    """Return, in words, the sizes of the ranks that do not agree on what passes between them; empty if all agree.

    If each rank has one size for all, the shapes of all ranks are compared. Else it is the first two ranks of which one
    sends what the other does not expect. Nothing can be said unless all ranks have called.
    """
    ranks = sorted(calls)
    sizes = {rank: _sizes(calls[rank], len(ranks)) for rank in ranks}
    known = {rank: size for rank, size in sizes.items() if size is not None}
    if len(known) < len(ranks):
        return {}
    if all(len({*size.received, *size.sent}) == 1 for size in known.values()):
        shapes = {rank: _shape(call) for rank, call in calls.items()}
        return shapes if len({size.sent[0] for size in known.values()}) > 1 else {}
    for i, source in enumerate(ranks):
        for j, target in enumerate(ranks):
            sent, received = known[source].sent[j], known[target].received[i]
            if sent != received:
                if source == target:
                    return {source: f"{sent} elements for itself and room for {received}"}
                return {source: f"{sent} elements for rank {target}", target: f"{received} from rank {source}"}
    return {}


def one_size(call: Call) -> str | None:
    """Say what a rank sends to each other one and receives from it, if it has one size for all."""
    return _shape(call) if not call.splits and len({prod(shape) for shape in call.shapes}) == 1 else None


def _shape(call: Call) -> str:
    return "×".join(map(str, call.shapes[-1])) or "a number"


def _sizes(call: Call, ranks: int) -> _Sizes | None:
    """Return the sizes of a call by `ranks` ranks; None if they are not on record."""
    if call.op == "alltoall_":
        each = [prod(shape) for shape in call.shapes]
        return _Sizes(each[:ranks], each[ranks:]) if len(each) == 2 * ranks else None
    if len(call.shapes) != 2:
        return None
    received, sent = (
        _split(shape, rows, ranks) for shape, rows in zip(call.shapes, call.splits or ((), ()), strict=True)
    )
    return _Sizes(received, sent) if received and sent else None


def _split(shape: Sequence[int], rows: Sequence[int], ranks: int) -> list[int]:
    """Return the elements of each part of a tensor, which has these rows; as many in each if it is not said."""
    if not rows:
        return [prod(shape) // ranks] * ranks
    return [count * prod(shape[1:]) for count in rows] if len(rows) == ranks else []
