"""The steps at whose end a run looks closely: at every one, at some, or at none."""

from __future__ import annotations

from collections.abc import Sequence

#: The ways in which a plan has steps digested.
DIGESTS = ("every", "sparse", "none")
#: Of sparse steps: the first ones that are all sampled, and how many there are each time that the number doubles.
FIRST = 8
#: Between sampled steps, each one whose number this divides is asked for numbers that are not finite.
ASKED = 4


def is_sampled(step: int, digests: str, closely: Sequence[int] = ()) -> bool:
    """Return whether the end of a step (from 1) is looked at; each step from `closely[0]` to `closely[1]` is.

    Of sparse steps two neighbours are sampled together: what changes, or grows, at every step shows between them.
    """
    if digests != "sparse" or (closely and closely[0] <= step <= closely[1]):
        return True
    apart = 1 << max(0, 1 + step.bit_length() - FIRST.bit_length())
    return step % apart < 2


def is_digested(step: int, digests: str, closely: Sequence[int] = ()) -> bool:
    """Return whether the parameters after a step (from 1), and its batches, are digested."""
    return digests != "none" and is_sampled(step, digests, closely)
