"""The runner `sandbox`: each rank with a network, a host name, processes and mounts of its own, without a daemon."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.runners import environment
from breakrank.runners.base import RankProcess
from breakrank.runners.kind import LocalKind, Resources, RunSpec
from breakrank.runners.namespaces import Walls, raise_walls
from breakrank.runners.process import ProcessRunner
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan

#: The port of rank 0's store, and of each rank's server, which nobody else in its network can have.
STORE_PORT, SERVER_PORT = 29500, 2222


@dataclass
class SandboxRunner(ProcessRunner):
    """Starts the ranks as the process runner does, each as if on its own host. The namespaces outlast the attempts."""

    _bridge: int = 0
    _around: list[Walls] = field(default_factory=list)

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Make the namespaces with the first attempt, and start the ranks in them. Raises `BreakrankError`."""
        if not self._around:
            self._bridge, self._around = raise_walls(self.session, plan.ranks, view.holder)
        return super().start(plan, attempt, folder, view)

    def close(self, write: Callable[..., None]) -> None:
        """Take the namespaces down."""
        for walls in self._around:
            walls.close()
        if self._bridge:
            self.session.kept -= {self._bridge, *(walls.pid for walls in self._around)}
            with contextlib.suppress(BreakrankError):
                self.session.signal(self._bridge, signal.SIGKILL)
                self.session.clear()
        self._bridge, self._around = 0, []

    def _find_port(self, plan: Plan) -> int:
        return STORE_PORT

    def _addresses(self) -> list[str]:
        return [f"{walls.address}:{SERVER_PORT}" for walls in self._around]

    def _walls(self, rank: int) -> Walls | None:
        return self._around[rank]

    def _environment(self, plan: Plan, rank: int, attempt: int, port: int) -> dict[str, str]:
        """Return the environment of a rank that is alone on its host."""
        env = super()._environment(plan, rank, attempt, port)
        env |= {
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "GROUP_RANK": str(rank),
            "GROUP_WORLD_SIZE": str(plan.ranks),
            "MASTER_ADDR": self._master(plan),
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        return env | environment.of_rank(plan.environment, rank)

    def _master(self, plan: Plan) -> str:
        """Return how the ranks call the host of rank 0."""
        return self._around[0].host


class Sandbox(LocalKind):
    """Each rank in namespaces of its own."""

    name = "sandbox"
    isolates = True
    needs = ("netns",)

    def make(self, resources: Resources, spec: RunSpec) -> SandboxRunner:
        """Return a runner for one run."""
        return SandboxRunner(resources.session, resources.importable, spec.programs, spec.agent, resources.zygotes)


RUNNER = Sandbox()
