"""The steps whose parameters and batches are digested: every one, some, or none."""

from __future__ import annotations

from collections.abc import Sequence

#: The ways in which a plan has steps digested.
DIGESTS = ("every", "sparse", "none")
#: Of sparse digests: the first steps that all have one, and how many there are each time that the number doubles.
FIRST = 8


def is_digested(step: int, digests: str, closely: Sequence[int] = ()) -> bool:
    """Return whether the end of a step (from 1) is digested; each step from `closely[0]` to `closely[1]` is."""
    if digests != "sparse" or (closely and closely[0] <= step <= closely[1]):
        return digests != "none"
    apart = 1 << max(0, step.bit_length() - FIRST.bit_length())
    return step % apart == 0
