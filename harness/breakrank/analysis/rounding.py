"""Rounding: how far the parameters of two runs lie apart, and how far the order of sums alone may take them.

The order of a sum over ranks can differ where one of the runs was started again (DistributedDataParallel fills its
buckets anew after the first step, and a ring begins elsewhere), or had another number of ranks. Two numbers have one
sum, whatever their order: two ranks give no reason for a difference. Equal work has equal bits, unless the order can
differ.

Rounding errors that are independent grow with the square root of their number, and are relative to what is rounded
(Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). In each step a sum of gradients over
all ranks is rounded, and the parameters that it is added to. So the bound on the distance is

    ULPS · √(ranks · steps) · (ε of the parameters · |parameters| + ε of the reductions · |way since the first step|)

for each part of the parameters, where a part that is small counts as if its elements were of the usual size. A
difference of half a mean step is never one of rounding: a step that was lost would look like that.

In stable training (SGD, momentum and Adam, float32 and bfloat16, 3 and 8 ranks) the distance was 0.04 to 0.2 ε of the
norm after 5 steps and 0.6 to 8 ε after 200, and the bound is 15 ε and 98 ε for three ranks. Training can be unstable:
momentum in a deep network took a last bit apart to 18,000 ε in 200 steps. Such a difference is beyond the bound, and
called one. Adam does so at once with a parameter whose gradient is nothing but rounding, such as a bias before a batch
norm (300 ε after 5 steps): `breakrank.analysis.faint_gradients` knows these, and has a bound for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, sqrt
from typing import NamedTuple

from breakrank.analysis import faint_gradients
from breakrank.history.reader import History, RankHistory
from breakrank.verdict import name_ranks
from breakrank_agent.protocol.events import SketchEvent

#: The units in the last place that one rounding may be off, with what later steps make of it.
ULPS = 4
#: The part of a mean step from which on a difference is none of rounding.
OF_A_STEP = 0.5
#: The distance from 1 to the next number in each dtype that is reduced, where it is not the parameters' own.
EPS: Mapping[str, float] = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "half": 2.0**-10}


class Apart(NamedTuple):
    """A distance between the parameters of two runs, and the one that rounding explains, relative to their norm."""

    distance: float
    bound: float
    #: No part is further away than what rounding explains.
    explained: bool


def growth(history: History, control: History, ranks: int, steps: int) -> float:
    """Return how many ε rounding may come to, where the order of sums over ranks can differ between two runs; else 0.

    `ranks` are the most that the job had, and `steps` those of the whole job.
    """
    if not history.attempts or not control.attempts:
        return 0.0
    here, there = history.world(history.attempts[-1]), control.world(control.attempts[-1])
    again = max(len(history.attempts), len(control.attempts)) > 1
    return ULPS * sqrt(ranks * steps) if here != there or (again and here > 2) else 0.0


def apart(lived: RankHistory, model: RankHistory, growth: float) -> Apart | None:
    """Return how far a rank's parameters at the end lie from those of another run; None if it is not known."""
    here, there = lived.of_kind("sketch")[-1:], model.of_kind("sketch")
    if not growth or not here or not there or here[0]["sizes"] != there[-1]["sizes"]:
        return None
    by, last = _distances(here[0], there[-1]), there[-1]
    whole, size = _norm(last["norms"]), max(1, sum(last["sizes"]))
    moved, passed = _moved(there[0], last)
    fine, coarse = eps(lived, model), _eps_reduced(lived, model)
    strays = faint_gradients.strays([lived, model], len(last["sizes"]), int(here[0]["step"]))

    def bound(norm: float, elements: int) -> float:
        usual = sqrt(elements / size)
        return growth * (fine * max(norm, whole * usual) + coarse * moved * usual)

    distance, most = _norm(by), OF_A_STEP * moved / passed + _norm(strays) if passed else inf
    parts = zip(by, last["norms"], last["sizes"], strays, strict=True)
    explained = distance <= most and all(one <= bound(norm, elements) + way for one, norm, elements, way in parts)
    return Apart(distance / (whole or 1.0), min(bound(whole, size) + _norm(strays), most) / (whole or 1.0), explained)


def remarks(history: History, control: History, ranks: int, steps: int) -> Iterator[str]:
    """Say how far the parameters lie from the control's where the order of sums can differ, and what rounding is."""
    amount = growth(history, control, ranks, steps)
    models = {lived.rank: lived for lived in control.last}
    pairs = [(lived, models[lived.rank]) for lived in history.last if lived.ended_well and lived.rank in models]
    found = {lived.rank: one for lived, model in pairs if (one := apart(lived, model, amount)) and one.distance}
    for explained in (True, False):
        alike = {rank: one for rank, one in found.items() if one.explained is explained}
        if alike:
            most = max(alike.values())
            said = (
                "that is rounding: sums over ranks came in another order, which explains"
                if explained
                else ("that is more than rounding: sums over ranks in another order explain")
            )
            yield (
                f"the parameters of {name_ranks(sorted(alike))} lie {most.distance:.1e} of their norm from the "
                f"control's; {said} up to {most.bound:.1e}"
            )


def eps(*sides: RankHistory) -> float:
    """Return the distance from 1 to the next number in the coarsest dtype among the parameters."""
    return max((e["eps"] for lived in sides for e in lived.of_kind("names")), default=0.0)


def _moved(first: SketchEvent, last: SketchEvent) -> tuple[float, int]:
    """Return how far the parameters came between two sketches, and in how many steps; 0 steps where it is not known."""
    if first["sizes"] != last["sizes"]:
        return 0.0, 0
    return _norm(_distances(first, last)), max(0, int(last["step"]) - int(first["step"]))


def _distances(here: SketchEvent, there: SketchEvent) -> list[float]:
    """Return the estimated distance of each part: the root of the mean square of the sums' differences."""
    pairs = zip(here["sums"], there["sums"], strict=True)
    return [_norm([a - b for a, b in zip(one, other, strict=True)]) / sqrt(max(1, len(one))) for one, other in pairs]


def _norm(numbers: Sequence[float]) -> float:
    return sqrt(sum(number * number for number in numbers))


def _eps_reduced(*sides: RankHistory) -> float:
    """Return the same of the coarsest dtype that is reduced over ranks; 0 where it is as fine as the parameters'."""
    dtypes = {str(e.get("dtype")) for lived in sides for e in lived.points("collective")}
    return max((EPS.get(dtype.rpartition(".")[2], 0.0) for dtype in dtypes), default=0.0)
