"""Oracles, one property per file: the folder is the registry.

An oracle is a module with `PROPERTY`, which is one of those in `breakrank.causes`, and one function
`judge(history, control, terms)`. It returns findings, in order, or raises `Abstain` with the reason. It is pure: it
reads the saved history, from which the fault events were removed, and the control's; never the plan.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakrank.history.reader import History
from breakrank.verdict import Finding


class Abstain(Exception):
    """An oracle has nothing to judge by; the message is the reason."""


@dataclass(frozen=True)
class Terms:
    """The terms of the job: its ranks and steps, and how far a result may lie from the control's.

    `tolerance` is relative, 0 for bit-for-bit. `deadline_s` is only for sentences. `reference` is the same training as
    one rank, on the same global batches, where the plan asks for it.
    """

    ranks: int
    steps: int
    tolerance: float = 0.0
    deadline_s: float = 30.0
    reference: History | None = None


Judge = Callable[[History, "History | None", Terms], Sequence[Finding]]


@functools.cache
def all_oracles() -> Mapping[str, Judge]:
    """Return every oracle by name."""
    return {name: module.judge for name, module in _modules().items()}


@functools.cache
def oracles_of(name: str) -> tuple[str, ...]:
    """Return the oracles that judge a property; first the one that has its name."""
    found = [oracle for oracle, module in _modules().items() if name == module.PROPERTY]
    return tuple(sorted(found, key=lambda oracle: (oracle != name, oracle)))


@functools.cache
def _modules() -> Mapping[str, Any]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}
