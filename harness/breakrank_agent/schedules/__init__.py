"""Schedules, one policy per file: the folder is the registry.

A policy is a module with a class `Policy(seed, schedule)` and its method `choose(candidates, turn)`, which returns one
of the candidates. It is pure: the same seed and the same questions give the same answers. The Conductor asks one which
rank moves next, and each rank asks one of its own which of its threads does.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from breakrank_agent.plan import Schedule
from breakrank_agent.protocol.trigger import PlanError


class Diverged(Exception):
    """A replayed schedule asks for one that cannot move now: the run is not the saved one."""


class Policy(Protocol):
    """Chooses the rank or thread that moves next."""

    def choose(self, candidates: Sequence[int], turn: int) -> int:
        """Return one of `candidates` (ranks or threads, ascending) for the move number `turn`, counted from 0."""


@functools.cache
def all_policies() -> Mapping[str, Any]:
    """Return every policy's class by name."""
    names = [found.name for found in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}").Policy for name in names}


def policy(schedule: Schedule, seed: str) -> Policy:
    """Return a schedule's policy. Raises `PlanError` if there is none of that name."""
    known = all_policies()
    if schedule.policy not in known:
        raise PlanError(f"unknown schedule {schedule.policy!r}; schedules are {', '.join(known)}")
    made: Policy = known[schedule.policy](seed, schedule)
    return made
