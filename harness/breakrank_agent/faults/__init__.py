"""Faults, one file per family. Dropping a file here is all that it takes to add some."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Find a fault class by its name, so that tests can write `faults.Kill()`."""
    from breakrank_agent.fault import all_faults

    classes = {fault.__name__: fault for fault in all_faults().values()}
    if name not in classes:
        raise AttributeError(f"no fault is called {name!r}; faults are {', '.join(classes)}")
    return classes[name]
