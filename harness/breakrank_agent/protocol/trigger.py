"""Triggers: the coordinates of logical time at which a fault strikes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional, Union

#: Named places in logical time. `collective` includes point-to-point.
POINTS = (
    "start",
    "load",
    "forward",
    "backward",
    "collective",
    "optimize",
    "step",
    "save",
    "restore",
    "write",
    "end",
)
#: Selectors of ranks that are resolved when the plan is made; `one` is drawn from the seed.
SELECTORS = ("first", "last", "all", "one")


class PlanError(ValueError):
    """A plan, or the file that holds it, cannot be used."""


@dataclass(frozen=True)
class Trigger:
    """Coordinates of logical time at which a fault strikes, on entering the point and before its operation.

    `rank` is a number, one of `SELECTORS`, or `all-but:N`. Ranks and attempts count from 0, steps and visits from 1;
    step 0 is everything before the first step. Visits count within the step; without a step, within the attempt.
    """

    rank: Union[int, str]
    step: Optional[int] = None
    point: str = "step"
    visit: int = 1
    attempt: int = 0

    def __post_init__(self) -> None:
        if self.point not in POINTS:
            raise PlanError(f"unknown point {self.point!r}; points are {', '.join(POINTS)}")
        if isinstance(self.rank, str) and self.rank not in SELECTORS and not re.fullmatch(r"all-but:-?\d+", self.rank):
            raise PlanError(f"unknown rank selector {self.rank!r}; use a number, {', '.join(SELECTORS)} or all_but(r)")
        if (self.step or 0) < 0 or self.visit < 1 or self.attempt < 0:
            raise PlanError(f"step and attempt count from 0 and visit from 1, not {self}")

    def select(self, ranks: int, draw: int) -> tuple[int, ...]:
        """Return the ranks that are meant, of `ranks`; `draw` (any integer, from the seed) decides `one`."""
        if isinstance(self.rank, int):
            chosen = [self.rank]
        elif self.rank == "first":
            chosen = [0]
        elif self.rank == "last":
            chosen = [ranks - 1]
        elif self.rank == "one":
            chosen = [draw % ranks]
        elif self.rank == "all":
            chosen = list(range(ranks))
        else:
            spared = int(self.rank.split(":")[1])
            chosen = [r for r in range(ranks) if r != spared]
        beyond = [r for r in chosen if not 0 <= r < ranks]
        if beyond or not chosen:
            raise PlanError(f"the trigger names rank {beyond or self.rank}, but the job has ranks 0 to {ranks - 1}")
        return tuple(chosen)

    def words(self) -> str:
        """Say the coordinates as a person would."""
        visit = f", visit {self.visit}" if self.visit > 1 else ""
        attempt = f", attempt {self.attempt}" if self.attempt else ""
        who = f"rank {self.rank}" if isinstance(self.rank, int) else f"{self.rank.replace(':', ' ')} of the ranks"
        if self.step is None:
            return f"{who}, {ordinal(self.visit)} {self.point} of the run{attempt}"
        return f"{who}, step {self.step}, {self.point}{visit}{attempt}"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, and so on."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


def at(
    rank: Union[int, str], step: Optional[int] = None, point: str = "step", visit: int = 1, attempt: int = 0
) -> Trigger:
    """Return the trigger `rank, step, point, visit`; without a point, the end of the step.

    Without a step, the visit is one of the whole run: `at(rank=0, point="save", visit=2)` is the second save. Raises
    `PlanError` for coordinates that cannot exist.
    """
    return Trigger(rank, step, point, visit, attempt)


def all_but(rank: int) -> str:
    """Return the selector of every rank except `rank`."""
    return f"all-but:{rank}"
