"""Hooks, one framework or surface per file: the folder is the registry.

A hook is a module with `WAITS_FOR` (the name of a module of the program, or empty: at once) and `install(agent)`. What
it waits for is imported exactly when the program would have imported it, never earlier.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    from breakrank_agent.probe import Agent


@functools.cache
def all_hooks() -> tuple[Any, ...]:
    """Return every hook, imported, in the order of their names."""
    return tuple(importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))


def install_all(agent: Agent) -> None:
    """Install every hook: now, or when the module that it waits for has been imported."""
    waiting: dict[str, list[Callable[[Agent], None]]] = {}
    for hook in all_hooks():
        if not hook.WAITS_FOR or hook.WAITS_FOR in sys.modules:
            hook.install(agent)
        else:
            waiting.setdefault(hook.WAITS_FOR, []).append(hook.install)
    if waiting:
        sys.meta_path.insert(0, _Waiter(agent, waiting))


class _Waiter(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find, and installs the hooks once the module has run."""

    def __init__(self, agent: Agent, waiting: dict[str, list[Callable[[Agent], None]]]) -> None:
        self._agent = agent
        self._waiting = waiting

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec that the other finders have, with a loader that tells us when it is done."""
        installs = self._waiting.pop(fullname, None)
        if installs is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._agent, installs)
        if not self._waiting:
            sys.meta_path.remove(self)
        return spec


class _Loader(importlib.abc.Loader):
    """The module's own loader, and the hooks after it."""

    def __init__(self, loader: Any, agent: Agent, installs: list[Callable[[Agent], None]]) -> None:
        self._loader = loader
        self._agent = agent
        self._installs = installs

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """Leave it to the module's own loader."""
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module as ever, put its own loader back, then install."""
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        for install in self._installs:
            install(self._agent)

    def __getattr__(self, name: str) -> Any:
        # Resources and inspection ask a loader for more than the two methods.
        return getattr(self._loader, name)
