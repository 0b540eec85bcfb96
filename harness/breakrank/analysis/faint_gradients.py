"""Gradients that are nothing but rounding, and the way that an optimizer may take parameters by them.

Some parameters have no effect: the bias of the keys of an attention, a bias before a normalisation. Their gradient is
0, and sums that cancel leave rounding of it. An optimizer that divides a gradient by its own size, as Adam does, makes
steps of the learning rate of that, in any direction. So an element whose gradient was within rounding of 0 on both
sides at the first step may be apart by two such steps for each that was made, and n of them by √n times that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import sqrt

from breakrank.analysis.settings import Settings
from breakrank.history.reader import RankHistory

#: The settings by which an optimizer is known that divides a gradient by its own size.
_DIVIDES = frozenset(("eps", "betas", "etas"))


def counts(lived: RankHistory, parts: int) -> list[tuple[int, int]] | None:
    """Return how many elements of each part's first gradient were 0, and how many may be rounding; None if unknown."""
    for event in lived.of_kind("inputs"):
        if len(event.get("still", ())) == len(event.get("faint", ())) == parts:
            return [*zip(event["still"], event["faint"], strict=True)]
    return None


def straying(sides: Sequence[tuple[int, int]]) -> int:
    """Return how many elements may stray: those of a gradient that both sides have as 0 or rounding, one as rounding.

    Each side says how many it has of both. Elements that all have as 0 stay where they are.
    """
    return min(*map(sum, sides), sum(faint for _, faint in sides))


def strays(sides: Sequence[RankHistory], parts: int, last: int) -> list[float]:
    """Return how far each part of two runs may be apart after `last` steps, by elements that stray; 0 if unknown."""
    known = [counted for lived in sides if (counted := counts(lived, parts)) is not None]
    if len(known) < len(sides):
        return [0.0] * parts
    way = reach(sides, last)[last]
    return [way * sqrt(straying(both)) for both in zip(*known, strict=True)]


def reach(ranks: Sequence[RankHistory], last: int) -> list[float]:
    """Return how far one element may be apart between two of these runs by rounding alone, after 0 to `last` steps."""
    histories = [Settings(lived) for lived in ranks]
    rates = (max((_rate(own.at(step)) for own in histories), default=0.0) for step in range(1, last + 1))
    return [0.0, *accumulate(2 * rate for rate in rates)]


def remarks(ranks: Sequence[RankHistory]) -> Iterator[str]:
    """Say which parameters have such a gradient, if an optimizer of these ranks divides by it."""
    for lived in ranks:
        names = [name for event in lived.of_kind("names")[:1] for name in event["names"]]
        few = counts(lived, len(names)) or []
        found = [name for name, (_, faint) in zip(names, few, strict=False) if faint]
        if found and reach([lived], 1)[1]:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            yield (
                f"the gradient of {found[0]}{more} has elements that are 0 but for rounding, of which the optimizer "
                "makes whole steps: the parameters may differ from those of one rank by these"
            )
            return


def _rate(settings: dict[tuple[int, int, str], str]) -> float:
    """Return the most by which optimizers that divide a gradient by its size move an element in a step."""
    groups: dict[tuple[int, int], dict[str, str]] = {}
    for (optimizer, group, name), value in settings.items():
        groups.setdefault((optimizer, group), {})[name] = value
    return max((_number(own.get("lr")) * _first(own) for own in groups.values() if _DIVIDES & own.keys()), default=0.0)


def _first(group: dict[str, str]) -> float:
    """Return how many learning rates the first step may be: RMSprop's average of squares begins at 0."""
    smoothing = _number(group.get("alpha"))
    return float((1 - smoothing) ** -0.5) if 0 < smoothing < 1 else 1.0


def _number(text: str | None) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if number - number == 0 else 0.0
