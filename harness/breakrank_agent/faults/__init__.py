"""Faults, one file per family: the folder is the registry. Dropping a file here is all that it takes to add some."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from breakrank_agent.protocol.annotated import Unfit, check_fields, shown
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.trigger import PlanError

#: The most names of faults that a refusal shows: the nearest ones.
_SHOWN = 5


def __getattr__(name: str) -> Any:
    """Find a fault class by its name, so that tests can write `faults.Kill()`."""
    classes = {fault.__name__: fault for fault in all_faults().values()}
    if name not in classes:
        raise AttributeError(f"no fault is called {name!r}; faults are {', '.join(classes)}")
    return classes[name]


@functools.cache
def all_faults() -> Mapping[str, type[Fault]]:
    """Return every fault class by name: this folder is the registry. Raises `PlanError` for a wrong header."""
    found: dict[str, type[Fault]] = {}
    for family in (module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")):
        for value in vars(_load(family)).values():
            if isinstance(value, type) and issubclass(value, Fault) and value.__module__ == f"{__name__}.{family}":
                found[value.name()] = value
    return dict(sorted((name, fault) for name, fault in found.items() if not fault.abstract))


def _load(family: str) -> ModuleType:
    """Import the file of a family. Raises `PlanError`, naming the file."""
    try:
        return importlib.import_module(f"{__name__}.{family}")
    except PlanError as error:
        raise PlanError(f"{family}.py: {error}") from None


def fault_from_json(raw: Any) -> Fault:
    """Read a fault. Raises `PlanError` for an unknown name or field."""
    if not isinstance(raw, Mapping) or "name" not in raw:
        raise PlanError("a strike's fault has no name")
    known = all_faults()
    name = raw["name"]
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, _SHOWN, 0.5) or list(known)[:_SHOWN]
        raise PlanError(f"unknown fault {shown(name)}; faults are {', '.join(near)} and {len(known) - len(near)} more")
    values = {k: v for k, v in raw.items() if k != "name"}
    try:
        fields = check_fields(known[name], values, f"fault {name!r}") if dataclasses.is_dataclass(known[name]) else {}
        return known[name](**{**values, **fields})
    except (Unfit, TypeError) as error:
        raise PlanError(str(error) if isinstance(error, Unfit) else f"fault {name!r}: {error}") from None
