"""The laws of collectives: what each output must be, given the inputs of all ranks.

The log has the digest of a tensor, its number of elements, and their sum, sum of magnitudes, greatest and least. If a
tensor has one part for each rank, the log has the same of each part. Data that is only moved keeps its digest. A
reduction keeps the sum: the sum of the output is the sum of all inputs, up to the error of rounding.

The bound is the textbook's for a sum of W terms in any order (Higham, Accuracy and Stability of Numerical Algorithms,
section 4.2): per element (W - 1) u sum |x|, with the unit roundoff u of the dtype; added up over all elements, with as
much again for the division of an average, and for the checksums, which are taken in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from breakrank.analysis.collectives import Call
from breakrank.analysis.digests import by_value
from breakrank_agent.protocol.events import Contents

#: Unit roundoff of a dtype.
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
#: Width of an integer dtype: sums wrap round at it.
WIDTH = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}

#: The sums that are on record of a tensor.
_Sum = Literal["sum", "abs", "max", "min"]
_SUMS: tuple[_Sum, ...] = ("sum", "abs", "max", "min")
_EXTREMES: tuple[_Sum, ...] = ("max", "min")

#: Collectives that give every rank the reduction.
_ALL_REDUCES = ("allreduce_", "allreduce_coalesced_")
_GATHERS_PARTS = ("_allgather_base_", "allgather_into_tensor_coalesced_")
_SCATTERS_PARTS = ("_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_")


class Breach(NamedTuple):
    """A law that does not hold: on which ranks, and how it shows, in a clause."""

    ranks: tuple[int, ...]
    how: str


class _Duty(NamedTuple):
    """The law of one output of a rank: it is the reduction of `sources`, or the one source itself."""

    rank: int
    output: Contents
    sources: Sequence[Contents]
    reduces: bool


def breach(calls: Mapping[int, Call], ranks: Sequence[int]) -> Breach | None:
    """Return how the law of a collective is broken that `ranks`, in the group's order, have called; None if it holds.

    Nothing can be said without the inputs of all ranks. Outputs of ranks that did not finish are not looked at.
    """
    if any(rank not in calls or calls[rank].inputs is None for rank in ranks):
        return None
    one = calls[ranks[0]]
    if one.op in _ALL_REDUCES:
        unlike = _unlike(calls, ranks)
        if unlike is not None:
            return unlike
    wrong: dict[int, str] = {}
    try:
        for duty in _duties(one.op, calls, ranks):
            how = _reduced(duty, one) if duty.reduces else _moved(duty)
            if how:
                wrong.setdefault(duty.rank, how)
    except (IndexError, KeyError, TypeError):
        # The calls do not fit each other at all: the comparison of their arguments finds the mismatch.
        return None
    if not wrong:
        return None
    guilty = ranks if one.op in _ALL_REDUCES else wrong
    return Breach(tuple(sorted(guilty)), wrong[min(wrong)])


def overflow(calls: Mapping[int, Call], ranks: Sequence[int]) -> str:
    """Say how a sum of finite numbers has become infinite; the empty string if it has not, or it is not known."""
    if any(rank not in calls or calls[rank].inputs is None for rank in ranks):
        return ""
    one = calls[ranks[0]]
    if (one.reduce or "").upper() not in ("SUM", "AVG") or one.dtype not in ROUNDOFF:
        return ""
    try:
        for duty in _duties(one.op, calls, ranks):
            if duty.reduces and not _is_finite(duty.output) and all(map(_is_finite, duty.sources)):
                most = max(abs(_number(source, name)) for source in duty.sources for name in _EXTREMES)
                return f"the largest number that a rank had was {most:.6g}"
    except (IndexError, KeyError, TypeError):
        # The calls do not fit each other: that is another finding.
        return ""
    return ""


def _is_finite(tensor: Contents) -> bool:
    return not tensor["n"] or all(math.isfinite(float(tensor[name])) for name in _SUMS)


def message_breach(sent: Call, received: Call) -> Breach | None:
    """Return how what was received is not what was sent; None if it is, or is not known."""
    if not sent.inputs or not received.outputs:
        return None
    how = _moved(_Duty(received.rank, received.outputs[0], sent.inputs, False))
    return Breach((received.rank,), how) if how else None


def _duties(op: str, calls: Mapping[int, Call], ranks: Sequence[int]) -> Iterator[_Duty]:
    """Yield what each output that is on record must be."""
    own = _OWN.get(op)
    if own is None:
        return
    peers = [calls[rank] for rank in ranks]
    for place, rank in enumerate(ranks):
        for i, output in enumerate(calls[rank].outputs or ()):
            yield from own(rank, place, i, output, peers, ranks)
        if op in _ALL_REDUCES and calls[rank].outputs:
            # All others got the same.
            return


_Maker = Callable[[int, int, int, Contents, Sequence[Call], Sequence[int]], Iterator[_Duty]]


def _all_reduce(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    yield _Duty(rank, output, [_inputs(peer)[i] for peer in peers], True)


def _broadcast(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    yield _Duty(rank, output, [_inputs(_root(peers, ranks))[i]], False)


def _gather(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    # Of several tensors a rank, all of one rank come before those of the next.
    each = len(_inputs(peers[0]))
    yield _Duty(rank, output, [_inputs(peers[i // each])[i % each]], False)


def _gather_parts(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    for peer, part in zip(peers, _parts(output), strict=True):
        yield _Duty(rank, part, [_inputs(peer)[i]], False)


def _scatter(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    yield _Duty(rank, output, [_inputs(_root(peers, ranks))[place]], False)


def _reduce_scatter(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    yield _Duty(rank, output, [_inputs(peer)[place] for peer in peers], True)


def _reduce_scatter_parts(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    yield _Duty(rank, output, [_parts(_inputs(peer)[i])[place] for peer in peers], True)


def _all_to_all(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    yield _Duty(rank, output, [_inputs(peers[i])[place]], False)


def _all_to_all_parts(
    rank: int, place: int, i: int, output: Contents, peers: Sequence[Call], ranks: Sequence[int]
) -> Iterator[_Duty]:
    for peer, part in zip(peers, _parts(output), strict=True):
        yield _Duty(rank, part, [_parts(_inputs(peer)[i])[place]], False)


_OWN: dict[str, _Maker] = {
    **dict.fromkeys((*_ALL_REDUCES, "reduce_"), _all_reduce),
    "broadcast_": _broadcast,
    **dict.fromkeys(("allgather_", "allgather_coalesced_", "gather_"), _gather),
    **dict.fromkeys(_GATHERS_PARTS, _gather_parts),
    "scatter_": _scatter,
    "reduce_scatter_": _reduce_scatter,
    **dict.fromkeys(_SCATTERS_PARTS, _reduce_scatter_parts),
    "alltoall_": _all_to_all,
    "alltoall_base_": _all_to_all_parts,
}


def _inputs(call: Call) -> Sequence[Contents]:
    return call.inputs or ()


def _parts(tensor: Contents) -> Sequence[Contents]:
    parts: Sequence[Contents] = tensor["parts"]
    return parts


def _root(peers: Sequence[Call], ranks: Sequence[int]) -> Call:
    root = peers[0].root
    return peers[ranks.index(root if root is not None else ranks[0])]


def _unlike(calls: Mapping[int, Call], ranks: Sequence[int]) -> Breach | None:
    """Return how the outputs differ of an operation that gives all ranks the same ones."""
    outputs = {rank: calls[rank].outputs for rank in ranks if calls[rank].outputs}
    digests = {rank: tuple(o["digest"] for o in out) for rank, out in outputs.items() if out}
    kinds = by_value(digests)
    if len(kinds) < 2:
        return None
    most = max(kinds.values(), key=len)
    alone = 2 * len(most) > len(digests)
    odd = tuple(sorted(rank for rank in digests if not alone or rank not in most))
    return Breach(odd, "the ranks were left with different results")


def _moved(duty: _Duty) -> str:
    """Say how an output is not the one tensor that it must be; the empty string if it is."""
    source = duty.sources[0]
    if duty.output["digest"] == source["digest"]:
        return ""
    return f"{_tell(duty.output)} came out for {_tell(source)}"


def _tell(tensor: Contents) -> str:
    return f"a tensor with the sum {tensor['sum']}" if "sum" in tensor else f"a tensor {tensor['digest']}"


def _reduced(duty: _Duty, call: Call) -> str:
    """Say how an output cannot be the reduction of its sources; the empty string if it can."""
    output, reduce = duty.output, (call.reduce or "").upper()
    tensors = [t for t in (output, *duty.sources) if t["n"]]
    values = [float(t[name]) for t in tensors for name in _SUMS]
    if not tensors or not all(map(math.isfinite, values)):
        # Nothing was reduced; or it overflowed, and then which result is right is no law of the collective.
        return ""
    if reduce in ("MAX", "MIN"):
        extreme: _Sum = "max" if reduce == "MAX" else "min"
        pick: Callable[..., float] = max if reduce == "MAX" else min
        expected = pick(_number(t, extreme) for t in duty.sources)
        if output[extreme] != expected:
            return f"its {extreme}imum is {output[extreme]}, and that of the inputs {expected}"
        return ""
    if reduce not in ("SUM", "AVG"):
        return ""
    total: float = sum(_number(t, "sum") for t in duty.sources)
    if reduce == "AVG":
        total /= len(duty.sources)
    if _adds_up(_number(output, "sum"), total, call.dtype, duty.sources, reduce == "AVG"):
        return ""
    return f"its sum is {output['sum']}, and that of the inputs {total}"


def _number(tensor: Contents, name: _Sum) -> float:
    """Return a sum as the number that it is, if it is finite. Raises `TypeError` for a text."""
    value = tensor[name]
    if isinstance(value, str):
        raise TypeError(f"{name} is {value}")
    return value


def _adds_up(found: float, total: float, dtype: str, sources: Sequence[Contents], average: bool) -> bool:
    """Return whether a sum is the expected one, modulo the width of integers, and within the rounding of floats."""
    if dtype in WIDTH:
        return average or (found - total) % (1 << WIDTH[dtype]) == 0
    if dtype not in ROUNDOFF:
        return True
    size = sum(float(t["abs"]) for t in sources)
    count = max(int(t["n"]) for t in sources) * len(sources)
    roundings = len(sources) if average else len(sources) - 1
    bound = roundings * ROUNDOFF[dtype] * size * (1 + ROUNDOFF[dtype]) ** roundings
    return bool(abs(found - total) <= bound + count * ROUNDOFF["float64"] * size)
