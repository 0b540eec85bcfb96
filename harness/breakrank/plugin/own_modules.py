"""Finds our own modules for the import system before pytest does, which would rewrite the assertions in them.

pytest rewrites all packages of a distribution that has a plugin: it parses and compiles each module from its source.
Without a place for the result (PYTHONDONTWRITEBYTECODE, as images set it, or a folder that is not ours) it does so at
each start, and leaves the bytecode that is there aside. Our modules assert nothing that a test would show.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGES = ("breakrank.", "breakrank_agent.")


class OwnModules:
    """The finder of modules below our packages."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module of ours as Python itself finds it; None leaves it to the other finders."""
        return PathFinder.find_spec(name, path, target) if name.startswith(PACKAGES) else None


def find_first(add_cleanup: Callable[[Callable[[], None]], None]) -> None:
    """Find our modules first until the clean-up."""
    finder = OwnModules()
    sys.meta_path.insert(0, finder)
    add_cleanup(lambda: _leave(finder))


def _leave(finder: OwnModules) -> None:
    # A program that runs pytest in its own process may have put the finders back already.
    with contextlib.suppress(ValueError):
        sys.meta_path.remove(finder)
