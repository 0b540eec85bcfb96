"""Hooks: a folder for each framework, one surface a file. The folders are the registry.

A hook is a module with `WAITS_FOR` (the name of a module of the program, or empty: at once) and `install(agent)`; any
other module of a folder serves its hooks. The module that a hook waits for is imported exactly when the program would
have imported it, never earlier. Optional: `AFTER` names the hooks (`folder.module`) that have to be installed before
this one; with `IN_CHILDREN` a hook is installed in the watched children of a rank, too; a zygote calls `warm_up()` for
all its ranks.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

from breakrank_agent.protocol.frameworks import all_frameworks

if TYPE_CHECKING:
    from breakrank_agent.agent.agent import Agent


@functools.cache
def all_hooks() -> tuple[Any, ...]:
    """Return every hook, imported: those of Python first, then in the order of their names, each after its `AFTER`."""
    folders = sorted((one.name for one in pkgutil.iter_modules(__path__) if one.ispkg), key=_python_first)
    found: dict[str, Any] = {}
    for folder in folders:
        package = importlib.import_module(f"{__name__}.{folder}")
        for one in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{one.name}")
            if hasattr(module, "install"):
                found[f"{folder}.{one.name}"] = module
    return tuple(found[name] for name in in_order({name: getattr(hook, "AFTER", ()) for name, hook in found.items()}))


def _python_first(folder: str) -> tuple[bool, str]:
    return folder != "python", folder


def in_order(after: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names in the order in which they are given, but each behind those that it has to come `after`.

    Raises `ValueError` where these are not there, or where names wait for each other.
    """
    placed: list[str] = []
    left = list(after)
    while left:
        name = next((one for one in left if set(after[one]) <= set(placed)), None)
        if name is None:
            raise ValueError(f"no hook can be installed first among {', '.join(left)}: see their AFTER")
        placed.append(name)
        left.remove(name)
    return placed


def warm_up() -> None:
    """Do, in a zygote, what would cost each rank time; what the hooks wait for has been imported."""
    for hook in all_hooks():
        if hook.WAITS_FOR in sys.modules and hasattr(hook, "warm_up"):
            hook.warm_up()


def install_all(agent: Agent) -> None:
    """Install every hook: now, or when the module that it waits for has been imported."""
    for hook in all_hooks():
        if hook.WAITS_FOR:
            after_import(hook.WAITS_FOR, functools.partial(hook.install, agent))
        else:
            hook.install(agent)


def install_in_child(agent: Agent) -> None:
    """Install the hooks that a child needs which is watched and no rank."""
    for hook in all_hooks():
        if getattr(hook, "IN_CHILDREN", False):
            after_import(hook.WAITS_FOR or "sys", functools.partial(hook.install, agent))


def after_import(name: str, follow: Callable[[], None]) -> None:
    """Call `follow` as soon as the module `name` has been imported; now, if it has been.

    One that is being imported is not yet: Keras, for one, imports TensorFlow before it is through itself.
    """
    if name in sys.modules and name not in _waiter.running:
        follow()
        return
    _waiter.waiting.setdefault(name, []).append(follow)
    if _waiter not in sys.meta_path:
        sys.meta_path.insert(0, _waiter)


def imports_framework() -> bool:
    """Return whether a framework is just being imported, with all that it brings along."""
    return not _outermost().isdisjoint(_waiter.running)


@functools.cache
def _outermost() -> frozenset[str]:
    """Return the outermost modules of the frameworks; hooks wait for each of them."""
    return frozenset(name for one in all_frameworks().values() for name in one.modules)


class _Waiter(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it lets the others find, and what waits is called once the module has run."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[], None]]] = {}
        #: The modules that are just being run.
        self.running: set[str] = set()

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec that the other finders have, with a loader that tells us when it is done.

        The caller may only want to know whether the module is there, and import it later, or never.
        """
        if fullname not in self.waiting:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, functools.partial(self._follow, fullname))
        return spec

    def _follow(self, name: str) -> None:
        """Call, once, the functions that wait for a module, which has run."""
        for follow in self.waiting.pop(name, ()):
            follow()
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


_waiter = _Waiter()


class _Loader(importlib.abc.Loader):
    """The module's own loader, and what follows after it."""

    def __init__(self, loader: Any, follow: Callable[[], None]) -> None:
        self._loader = loader
        self._follow = follow

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """Leave it to the module's own loader."""
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module as ever, put its own loader back, then do what waits for it."""
        _waiter.running.add(module.__name__)
        try:
            self._loader.exec_module(module)
        finally:
            _waiter.running.discard(module.__name__)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._follow()

    def __getattr__(self, name: str) -> Any:
        # Resources and inspection ask a loader for more than the two methods.
        return getattr(self._loader, name)
