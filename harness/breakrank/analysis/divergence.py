"""Find where two ranks' call sequences diverge, and whether one moved or missing call explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

#: The number of calls after the first difference that are compared.
WINDOW = 64


class Swap(NamedTuple):
    """The next `length` calls of both are the same, in another order."""

    length: int


class Gap(NamedTuple):
    """The next `length` calls of one are missing in the other: in the second, if `in_second`."""

    length: int
    in_second: bool


def parting(one: Sequence[Hashable], other: Sequence[Hashable]) -> Swap | list[Gap] | None:
    """Return how two orders part that differ from their first call on.

    Gaps are several where one in either explains the difference as well. None: they have nothing to do with each
    other, as where each rank has a branch of its own, after which both go on alike.
    """
    whole = max(len(one), len(other)) <= WINDOW
    one, other = one[:WINDOW], other[:WINDOW]
    if not one or not other or one[0] == other[0]:
        return None
    for length in range(2, min(len(one), len(other)) + 1):
        # In a loop, a call that is missing shifts all that come later: then the rest does not agree.
        over = whole and length == len(one) == len(other)
        if Counter(one[:length]) == Counter(other[:length]) and (over or _agree(one[length:], other[length:])):
            return Swap(length)
    if any(_agree(one[i:], other[i:]) for i in range(1, min(len(one), len(other)))):
        return None
    for length in range(1, WINDOW):
        gaps = [
            *([Gap(length, True)] if _agree(one[length:], other) else []),
            *([Gap(length, False)] if _agree(one, other[length:]) else []),
        ]
        if gaps:
            return gaps
    return None


def _agree(one: Sequence[Hashable], other: Sequence[Hashable]) -> bool:
    """Return whether both go on alike for as long as both go on, which is one call at least."""
    length = min(len(one), len(other))
    return length > 0 and one[:length] == other[:length]
