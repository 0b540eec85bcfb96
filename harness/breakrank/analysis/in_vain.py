"""Reductions in vain: of a copy of a gradient, where the optimizer took the gradient itself, or for one rank alone.

The copy is known by its digest. A copy of a part of a gradient, of several of them or in another precision is known by
the sums of all that one line reduces in a step, in rows of one length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from breakrank.analysis.collectives import Call, calls_of
from breakrank.history.reader import RankHistory
from breakrank_agent.protocol.events import Contents

_REDUCES = ("allreduce_", "allreduce_coalesced_", "reduce_")
#: The difference between sums that are one, relative to the magnitudes: in single precision, and in a narrower one.
_EQUAL, _NARROW = 1e-5, 1e-2
_WIDE = ("float32", "float64")


def reduced_in_vain(ranks: Sequence[RankHistory], step: int, parts: Sequence[int]) -> Call | None:
    """Return the call which read, at a step, just what each rank's optimizer took of the first of the parts.

    Or of all of them. None without such a call. Contents have to be on record, and of a large tensor only some elements
    are, so that nothing is found of it.
    """
    found: Call | None = None
    for lived in ranks:
        taken = next((e["gradients"] for e in lived.of_kind("inputs") if e["step"] == step), ())
        reads = [call for call in calls_of(lived) if call.step == step and call.op in _REDUCES and call.site]
        own = next((c for c in reads if parts[0] < len(taken) and _reads(c, taken[parts[0]])), None)
        own = own or _by_sums(lived, step, parts, reads)
        if own is None:
            return None
        found = found or own
    return found


def reduced_for_one(ranks: Sequence[RankHistory], step: int, part: int) -> Call | None:
    """Return the call that reduced, at a step, a part's gradient, and gave the sum to a root; None without one.

    The root's optimizer took the sum, or its mean. Without the contents of collectives nothing is found.
    """
    for lived in ranks:
        totals = next((e.get("totals", ()) for e in lived.of_kind("inputs") if e["step"] == step), ())
        for call in calls_of(lived) if part < len(totals) else ():
            if call.step == step and call.op == "reduce_" and call.site and call.root == lived.rank:
                error = _EQUAL if call.dtype in _WIDE else _NARROW
                if any(_is_sum(one, totals[part], (1, len(ranks)), error) for one in call.outputs or ()):
                    return call
    return None


def _is_sum(held: Contents, total: Sequence[float], times: Sequence[int], error: float) -> bool:
    """Return whether a tensor is by its sums what an optimizer took, or a multiple of that."""
    plain, size = held.get("sum"), held.get("abs")
    if "of" in held or not isinstance(plain, float) or not isinstance(size, float) or not total[1]:
        return False
    return any(max(abs(plain - n * total[0]), abs(size - n * total[1])) <= error * n * total[1] for n in times)


def _reads(call: Call, taken: str) -> bool:
    """Return whether a call read a tensor that the optimizer took, by the digests of both."""
    return any(
        hashlib.blake2b(bytes.fromhex(tensor["digest"]), digest_size=4).hexdigest() == taken
        for tensor in call.inputs or ()
    )


def _kind(call: Call) -> tuple[object, ...]:
    """Return the line of a call, the dtype, and the length of the rows."""
    return call.site, call.dtype, tuple(shape[1:] for shape in call.shapes)


def _by_sums(lived: RankHistory, step: int, parts: Sequence[int], reads: Sequence[Call]) -> Call | None:
    """Return the first of the calls of one kind that read in a step what the optimizer took, by its sums."""
    totals = next((e.get("totals", ()) for e in lived.of_kind("inputs") if e["step"] == step), ())
    if not totals or max(parts) >= len(totals):
        return None
    for kind in dict.fromkeys(map(_kind, reads)):
        calls = [call for call in reads if _kind(call) == kind]
        sums = [(one.get("sum"), one.get("abs")) for call in calls for one in call.inputs or () if "of" not in one]
        plain = [(one, size) for one, size in sums if isinstance(one, float) and isinstance(size, float)]
        error = _EQUAL if all(call.dtype in _WIDE for call in calls) else _NARROW
        for chosen in dict.fromkeys((tuple(parts[:1]), tuple(parts))):
            here = [sum(totals[part][field] for part in chosen) for field in range(2)]
            apart = [abs(sum(own[field] for own in plain) - here[field]) for field in range(2)]
            if plain and here[1] and len(plain) == len(sums) and max(apart) <= error * here[1]:
                return calls[0]
    return None
