"""The contract of a kind of runner: its properties, what it lacks here, the software it brings, and how it is prepared.

A module or package of this folder with a value `RUNNER`, an object of a class derived from `RunnerKind`, is a runner.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from breakrank.host.session import Session
from breakrank.nodes.host_names import HERE, Hosts
from breakrank.runners.base import Runner
from breakrank.runners.workdir import View, private_view
from breakrank.runners.zygotes import Zygotes
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.frameworks import distributions


class _Closable(Protocol):
    def close(self) -> None:
        """Give everything back."""


_C = TypeVar("_C", bound=_Closable)


class Resources:
    """The things that all runs of one bench share: its session, the agent's copies, and whatever stays warm.

    `staged` is the agent's copy in the folder of the runs, `importable` the same under a path that a search path can
    hold. Ranks are forked from `zygotes`, unless they start `cold`: then there are none. `hosts` are those that ranks
    can be started on.
    """

    def __init__(
        self, session: Session, runs: Path, staged: Path, importable: Path, cold: bool = False, hosts: Hosts = HERE
    ) -> None:
        self.session = session
        self.hosts = hosts
        self.runs = runs
        self.staged = staged
        self.importable = importable
        self.cold = cold
        self.zygotes = None if cold else Zygotes(session, runs)
        self._shared: dict[type[_Closable], _Closable] = {}

    def shared(self, kind: type[_C], make: Callable[[], _C]) -> _C:
        """Return the one object of a class that all runs share, made by `make` when it is first asked for."""
        found = self._shared.get(kind)
        if not isinstance(found, kind):
            found = self._shared[kind] = make()
        return found

    def close(self) -> None:
        """Close whatever is shared: each of them, whatever the others raise."""
        with contextlib.ExitStack() as ends:
            for one in self._shared.values():
                ends.callback(one.close)
            self._shared = {}
            if self.zygotes is not None:
                ends.callback(self.zygotes.close)


@dataclass(frozen=True)
class RunSpec:
    """One group of ranks to run: its plan, its run directory `folder`, and where its code lies.

    `programs` is the folder of the catalogue's programs, `where` that of a user's script, of which the ranks get a
    private view, unless they are to run `in_place`. Without `agent` they run as if we were not there.
    """

    plan: Plan
    folder: Path
    programs: Path
    agent: bool = True
    where: Path | None = None
    in_place: bool = False


class RunnerKind:
    """One kind of runner. All but its name and `prepare` has a default: ranks are plain processes of this machine."""

    #: The name that plans, options and records know it by.
    name: ClassVar[str]
    #: True if each rank has a network, a host name and processes of its own.
    isolates: ClassVar[bool] = False
    #: True if the ranks run in the image that the plan names, with the software of that image.
    has_image: ClassVar[bool] = False
    #: True if a command of the user's own starts the ranks, which then join. It is not asked for by name.
    joins: ClassVar[bool] = False
    #: Capabilities of this machine that it needs, as the doctor knows them.
    needs: ClassVar[tuple[str, ...]] = ()

    def lacks_framework(self, framework: str, image: str) -> str | None:
        """Return why ranks would not find a framework, empty if they would; None: they use this machine's.

        Raises `BreakrankError` for the image.
        """
        return None

    def lacks_program(self, capability: str, image: str) -> str | None:
        """Return why ranks would not find the program behind a capability, empty if they would.

        None: it is no such program, or they use this machine's. Raises `BreakrankError` for the image.
        """
        return None

    def software(self, plan: Plan) -> dict[str, Any]:
        """Return the software that runs the ranks, by name, as far as a result may depend on it."""
        return {"python": platform.python_version(), plan.framework: installed_version(plan.framework)}

    def warm_up(self, resources: Resources, plan: Plan) -> None:
        """Begin what takes long and needs no run directory."""

    def prepare(self, resources: Resources, spec: RunSpec) -> AbstractContextManager[tuple[Runner, View | None]]:
        """Make a runner for one run, and the place where its ranks run; None is `work` in the run directory.

        On leaving the context, that place is taken away. Raises `BreakrankError`.
        """
        raise NotImplementedError

    def sweep(self, show: bool, session: str) -> list[str]:
        """Remove what dead sessions have left outside of this machine's processes, or only `show` it; return it.

        With `session` it is what carries that id, alive or not. Raises `BreakrankError` if it cannot be looked for.
        """
        return []


class LocalKind(RunnerKind):
    """A kind of runner whose ranks have the files of this machine: a user's script runs in a view of its folder."""

    def make(self, resources: Resources, spec: RunSpec) -> Runner:
        """Return a runner for one run."""
        raise NotImplementedError

    def view(self, resources: Resources, spec: RunSpec, where: Path) -> AbstractContextManager[View]:
        """Give ranks the place where they run, and take it away afterwards. Raises `BreakrankError`."""
        if spec.in_place:
            return contextlib.nullcontext(View(where))
        return private_view(resources.session, where, spec.folder, resources.runs, resources.importable)

    @contextlib.contextmanager
    def prepare(self, resources: Resources, spec: RunSpec) -> Iterator[tuple[Runner, View | None]]:
        """Make a runner, and a private view of the folder of a user's script, or that folder itself."""
        with contextlib.ExitStack() as stack:
            view = None
            if spec.where is not None:
                view = stack.enter_context(self.view(resources, spec, spec.where))
            yield self.make(resources, spec), view


@functools.cache
def installed_version(distribution: str) -> str:
    """Return the version of a distribution, or `missing`."""
    for name in distributions(distribution):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "missing"
