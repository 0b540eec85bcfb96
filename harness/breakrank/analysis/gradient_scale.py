"""The relation of gradients to those of one rank on the same batches, in the first step: the same times a number.

Before that step the parameters are alike, so that nothing but the gradients can differ. Sums with random signs are
linear: those of a gradient that is another one times a number are the other one's times that number.
"""

from __future__ import annotations

from collections.abc import Sequence

from breakrank.history.reader import RankHistory

#: The relative difference within which two numbers are the same.
_EQUAL = 1e-3
#: The digits to which a factor is rounded, so that ranks which have the same are named together.
_DIGITS = 3


def factors(ranks: Sequence[RankHistory], one: RankHistory) -> dict[int, float]:
    """Return by what number each rank's gradients differ from those of one rank; nothing if it is no such number."""
    there = _sums(one)
    found: dict[int, float] = {}
    for lived in ranks:
        here = _sums(lived)
        if not there or len(here) != len(there):
            return {}
        pairs = [*zip(here, there, strict=True)]
        square = sum(value * value for value in there)
        factor = sum(a * b for a, b in pairs) / square if square else 0.0
        apart = sum((a - factor * b) ** 2 for a, b in pairs)
        if not factor or apart > _EQUAL**2 * sum(value * value for value in here):
            return {}
        found[lived.rank] = round(factor, _DIGITS)
    return found if any(abs(factor - 1) > _EQUAL for factor in found.values()) else {}


def _sums(lived: RankHistory) -> list[float]:
    """Return the sums of all gradients that a rank's optimizers took first."""
    taken = next((event["sums"] for event in lived.of_kind("inputs") if "sums" in event), [])
    return [value for part in taken for value in part]
