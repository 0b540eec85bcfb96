"""Reductions in vain: a collective reduced a copy of a gradient, and the optimizer took the gradient itself."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from breakrank.analysis.collectives import Call, calls_of
from breakrank.history.reader import RankHistory

_REDUCES = ("allreduce_", "allreduce_coalesced_", "reduce_")


def reduced_in_vain(ranks: Sequence[RankHistory], step: int, part: int) -> Call | None:
    """Return the call which read, at a step, just what the optimizer of each rank took of a part; None without one.

    Contents have to be on record, and of a large tensor only some elements are, so that nothing is found of it.
    """
    found: Call | None = None
    for lived in ranks:
        taken = next((e["gradients"] for e in lived.of_kind("inputs") if e["step"] == step), ())
        reads = [call for call in calls_of(lived) if call.step == step and call.op in _REDUCES and call.site]
        own = next((c for c in reads if part < len(taken) and _reads(c, taken[part])), None)
        if own is None:
            return None
        found = found or own
    return found


def _reads(call: Call, taken: str) -> bool:
    """Return whether a call read a tensor that the optimizer took, by the digests of both."""
    return any(
        hashlib.blake2b(bytes.fromhex(tensor["digest"]), digest_size=4).hexdigest() == taken
        for tensor in call.inputs or ()
    )
