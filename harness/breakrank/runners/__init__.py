"""Runners: how ranks come to exist, and what can be done to them from outside. The folder is the registry.

A runner is a module or package here with a value `RUNNER` (`breakrank.runners.kind`); the other modules are its parts.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping

from breakrank.errors import BreakrankError
from breakrank.runners.kind import RunnerKind

#: The runner of ranks that nothing has to be around.
PLAIN = "process"


@functools.cache
def all_runners() -> Mapping[str, RunnerKind]:
    """Return every runner by name: those on this machine first, and of these the plain one."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    kinds = [value for module in modules if isinstance(value := vars(module).get("RUNNER"), RunnerKind)]
    ordered = sorted(kinds, key=lambda kind: (kind.joins, kind.has_image, kind.isolates, kind.name != PLAIN, kind.name))
    return {kind.name: kind for kind in ordered}


def offered_runners() -> list[str]:
    """Return the names of the runners that can be asked for: where a command starts its ranks itself, none can."""
    return [name for name, kind in all_runners().items() if not kind.joins]


def image_runner() -> str:
    """Return the name of the runner that takes an image."""
    return next(name for name, kind in all_runners().items() if kind.has_image)


def find_runner(name: str) -> RunnerKind:
    """Return the runner of a plan by name. Raises `BreakrankError` if there is none, with the nearest name."""
    known = all_runners()
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"runners are {', '.join(known)}"
        raise BreakrankError(f"there is no runner {name!r}; {hint}")
    return known[name]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is nearest to another one; empty if none is near."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")
