"""Ranks in containers, in the environment that ranks have without: the image's own Python runs them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from breakrank.errors import BreakrankError, CutShortError
from breakrank.host.session import NO_WALLS
from breakrank.plan.script import command_line, is_script
from breakrank.runners.base import RankProcess
from breakrank.runners.docker import retrieval
from breakrank.runners.docker.cluster import SHARED, Cluster, Clusters
from breakrank.runners.docker.container import ContainerWalls
from breakrank.runners.docker.engine import is_rootless, words_of
from breakrank.runners.docker.image import find_image
from breakrank.runners.docker.namespaces import kinds
from breakrank.runners.environment import has_own
from breakrank.runners.kind import Resources, RunSpec
from breakrank.runners.process import ProcessRunner
from breakrank.runners.sandbox import SandboxRunner
from breakrank.runners.workdir import View, copy_folder
from breakrank.runners.zygotes import lasting
from breakrank_agent.plan import Plan


def prepare(resources: Resources, spec: RunSpec) -> tuple[DockerRunner, View]:
    """Start the containers that the ranks will run in, with what they work on; return the runner and the place.

    A user's script works on a copy of its folder. Raises `BreakrankError`.
    """
    left_out: tuple[str, ...] = ()
    if spec.where is not None:
        left_out = copy_folder(spec.where, spec.folder / "work", resources.runs, "the ranks are in containers")
    runner = DockerRunner(
        resources.session,
        resources.staged,
        spec.programs,
        spec.agent,
        clusters=resources.shared(Clusters, lambda: Clusters(resources.session, resources.staged)),
        cold=resources.cold,
    )
    return runner, replace(runner.lay(spec.plan, spec.folder), notes=left_out)


@dataclass
class DockerRunner(SandboxRunner):
    """Starts the ranks in containers. `cold`: each in a fresh one, which is removed after the run."""

    clusters: Clusters = field(kw_only=True)
    cold: bool = False
    _plan: Plan | None = None
    _cluster: Cluster | None = None
    _shared: str = ""
    _work: Path = field(default_factory=Path)

    def lay(self, plan: Plan, folder: Path) -> View:
        """Start what the ranks will run in, lay the run's working folder in, and return it. Raises `BreakrankError`."""
        walled = [strike.fault.name() for strike in plan.strikes if strike.fault.walled]
        if walled and os.geteuid() != 0 and not is_rootless():
            raise BreakrankError(
                f"{walled[0]} strikes in the namespaces of a container, which root alone may enter: run as root, or "
                "use an engine that runs without root, as its user"
            )
        self._plan = plan
        framework = "" if self.cold or plan.command else plan.framework
        environment = lasting(ProcessRunner._environment(self, plan, 0, 0, 0))
        self._work = folder / "work"
        try:
            cluster = self._cluster = self.clusters.get(plan.image, framework, environment)
            containers, self._shared = cluster.lay(plan.ranks, self.programs, self._work)
        except (DockerException, OSError) as error:
            raise BreakrankError(f"the containers cannot be made ready: {words_of(error)}") from None
        self._around = [ContainerWalls(one.pid, kinds(), one.address, one.host, container=one) for one in containers]
        return View(Path(f"{self._shared}/work"), containers[0].pid)

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the ranks of `attempt`, one after the other. Raises `BreakrankError`."""
        return ProcessRunner.start(self, plan, attempt, folder, view)

    def end_attempt(self) -> None:
        """End what the ranks left running, in the containers, too."""
        super().end_attempt()
        if self._cluster is not None:
            for container in self._cluster.containers:
                container.clear()

    def close(self, write: Callable[..., None]) -> None:
        """Take back what the ranks wrote, and give everything back. Raises `BreakrankError` if it was lost."""
        for walls in self._around:
            walls.close()
        self._around = []
        if self._cluster is None:
            return
        lost = self._bring_back(self._cluster, write)
        if not self.cold:
            retrieval.remove(self._cluster.containers[0].pid, self._shared)
        self._cluster = None
        if self.cold or lost:
            self.clusters.close()
        if lost:
            raise CutShortError(lost)

    def _bring_back(self, cluster: Cluster, write: Callable[..., None]) -> str:
        """Take what the ranks wrote into the run directory, and say what was left out; return why it is lost."""
        try:
            left_out = retrieval.bring_back(cluster.containers[0].pid, f"{self._shared}/work", self._work)
        except OSError as error:
            return f"the working folder is lost with the container of rank 0 ({error})"
        if left_out.count:
            write("not_kept", count=left_out.count, path=left_out.path, why=left_out.why)
        return ""

    def _spawn(
        self,
        plan: Plan,
        boot: dict[str, Any],
        env: dict[str, str],
        view: View,
        descriptors: list[int],
        channel: socket.socket,
    ) -> int:
        assert self._cluster is not None
        container = self._cluster.containers[boot["rank"]]
        with contextlib.ExitStack() as files:
            # Files of the run directory go along open: in the container they have no name.
            flags = {"log": os.O_RDWR, "stacks": os.O_WRONLY | os.O_CREAT, "words": os.O_WRONLY | os.O_NONBLOCK}
            sent = list(descriptors)
            for name in ("log", "stacks", "words", "plan"):
                descriptor = os.open(boot[name], flags.get(name, os.O_RDONLY), 0o600)
                files.callback(os.close, descriptor)
                boot[name] = len(sent)
                sent.append(descriptor)
            boot["programs"] = f"{self._shared}/programs"
            env = {**container.given, **env, **self.session.mark}
            request = {"boot": boot, "env": env, "cwd": str(view.folder), "walls": NO_WALLS}
            if plan.command:
                request["argv"] = self._command(plan.command_of(boot["attempt"]))
                if self.agent:
                    env["BREAKRANK_ENTER"] = json.dumps(boot)
            elif self.cold or has_own(plan.environment, boot["rank"]):
                # The container's warm process has the environment that all ranks have in common.
                request["argv"] = ["python3", "-m", "breakrank_agent.start.boot"]
                env["BREAKRANK_BOOT"] = json.dumps(boot)
            pid: int = container.ask(request, sent)
        self.session.follow(pid)
        channel.send(b"\n")
        return pid

    def _command(self, command: Sequence[str]) -> list[str]:
        """Return a user's script as the image's own interpreter runs it."""
        words = command_line(command)
        return ["python3", *words[1:]] if is_script(command) else words

    def _master(self, plan: Plan) -> str:
        """Return the name of rank 0's host, which the engine's name server knows."""
        return self._around[0].host

    def _inherited(self) -> dict[str, str]:
        """Return the image's own environment."""
        assert self._plan is not None
        config = find_image(self._plan.image).attrs["Config"] or {}
        return dict(line.split("=", 1) for line in config.get("Env") or ())

    def _staged(self) -> str:
        return f"{SHARED}/{self.staged.name}"
