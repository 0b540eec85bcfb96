"""Measuring for the benches: ways alternate in one run, and each line has all that one needs to judge its figure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple


class Measured(NamedTuple):
    """The seconds that one thing took, run by run, and a note of its parts that were not measured."""

    name: str
    seconds: Sequence[float]
    #: `cold` starts interpreters and imports, `warm` has them.
    state: str
    left_out: str

    def show(self) -> None:
        """Print the line."""
        print(
            f"\n{self.name}: n={len(self.seconds)}, median {_words(median(self.seconds))}, "
            f"maximum {_words(max(self.seconds))}, {self.state}, {_load()}; left out: {self.left_out}",
            end="",
        )


class Way(NamedTuple):
    """One of several ways to do a thing: its name, its function, and two fields of `Measured`."""

    name: str
    do: Callable[[], object]
    state: str
    left_out: str


def alternate(count: int, *ways: Way) -> list[Measured]:
    """Do each way once unmeasured, then all in turn, `count` times; print and return the times that they took."""
    for way in ways:
        way.do()
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(count):
        for way, seconds in zip(ways, taken, strict=True):
            began = time.perf_counter()
            way.do()
            seconds.append(time.perf_counter() - began)
    measured = [Measured(w.name, s, w.state, w.left_out) for w, s in zip(ways, taken, strict=True)]
    for one in measured:
        one.show()
    return measured


def ratio(slow: Measured, fast: Measured) -> float:
    """Print and return how many times longer the median of `slow` is, of runs that alternated."""
    times = median(slow.seconds) / median(fast.seconds)
    say(f"{slow.name} / {fast.name}: {times:.3g} times (ratio of the medians of {len(fast.seconds)}, taken in turn)")
    return times


def aim(text: str, met: bool) -> None:
    """Print whether something that the design wants holds here; on a busy machine it need not."""
    say(f"the aim, {text}: {'met' if met else 'NOT met'}")


def say(text: str) -> None:
    """Print a line that follows from measured ones."""
    print(f"\n  {text}")


def _words(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
