"""Schedules, one policy per file: the folder is the registry.

A policy is a module with a class `Policy(seed, choices)` and its method `choose(candidates, turn)`, which returns one
of the candidate ranks. It is pure: the same seed and the same questions give the same answers.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Protocol

from breakrank.errors import BreakrankError


class Diverged(Exception):
    """A replayed schedule asks for a rank that cannot move now: the run is not the saved one."""


class Policy(Protocol):
    """Who moves next."""

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Return one of `candidates` (ranks, ascending) for the move number `turn`, counted from 0."""


def policy(name: str, seed: int, choices: Sequence[int] = ()) -> Policy:
    """Return the policy called `name`. Raises `BreakrankError` if there is none."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    if name not in names:
        raise BreakrankError(f"unknown schedule {name!r}; schedules are {', '.join(names)}")
    made: Policy = importlib.import_module(f"{__name__}.{name}").Policy(seed, choices)
    return made
