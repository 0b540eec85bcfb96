"""The runner `process`: plain processes of this machine, below the supervisor, in torchrun's environment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from breakrank.errors import BreakrankError
from breakrank.files.disk_space import unwritable
from breakrank.files.private import check_ours
from breakrank.history.output import open_pipe
from breakrank.history.reader import LINES, lines_of, records_of
from breakrank.host.crash_dump import CrashDump
from breakrank.host.session import NO_WALLS, Session
from breakrank.plan.script import command_line
from breakrank.runners import environment
from breakrank.runners.base import RankProcess, StartsOwnRanks
from breakrank.runners.join_socket import Home
from breakrank.runners.kind import LocalKind, Resources, RunSpec
from breakrank.runners.namespaces import Walls
from breakrank.runners.workdir import View
from breakrank.runners.zygotes import Zygotes
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.entry import HOME, SECRET, SITECUSTOMIZE
from breakrank_agent.protocol.frameworks import all_frameworks, profile
from breakrank_agent.protocol.log import LogReader, create_log

#: Of the environment that pytest runs in, what a rank must not inherit.
OURS = ("BREAKRANK_", "TORCHELASTIC_", "PYTEST_")
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
#: The address at which ranks meet: a launcher's job may have it from the user.
_MEETING = ("MASTER_ADDR", "MASTER_PORT")


@dataclass
class ProcessRunner:
    """Starts the ranks of one attempt. `staged` is the agent's copy, `programs` the folder of the programs.

    With `zygotes`, ranks are forked from a warm process; without, each starts cold, as a user's script always does.
    """

    session: Session
    staged: Path
    programs: Path
    agent: bool = True
    zygotes: Zygotes | None = None
    #: True if ranks, and what they start, reach the addresses of this machine's network.
    in_our_network: ClassVar[bool] = True
    _port: socket.socket | None = None
    #: The address that is called by what a script starts and that trains, or joins a group of ranks.
    _home: Home | None = None
    #: For frameworks whose ranks listen each at an address of its own.
    _ports: list[socket.socket] = field(default_factory=list)
    _attempt: int = 0
    #: The view that the ranks run in, once they are started.
    _view: View | None = None

    def warm_up(self, plan: Plan) -> None:
        """Have imported what the plan's ranks are forked from, while other things are made ready."""
        if self.zygotes is not None and not plan.command:
            self.zygotes.warm_up(plan.framework, self._environment(plan, 0, 0, 0))

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the ranks of `attempt` in `view`, one after the other. Raises `BreakrankError`."""
        self._view, self._attempt = view, attempt
        if plan.command and self.agent and self._home is None and self.in_our_network:
            self._home = Home()
            self._home.open()
        port = self._find_port(plan)
        for rank in range(plan.ranks):
            yield self._start_rank(plan, rank, attempt, folder, view, port)

    def _find_port(self, plan: Plan) -> int:
        """Return the port of rank 0's store."""
        self._port = _reserve_port()
        if profile(plan.framework).cluster is not None:
            self._ports = [_reserve_port() for _ in range(plan.ranks)]
        return int(self._port.getsockname()[1])

    def _addresses(self) -> list[str]:
        """Return the address of each rank's server, for those frameworks whose ranks all have one."""
        return [f"127.0.0.1:{port.getsockname()[1]}" for port in self._ports]

    def _walls(self, rank: int) -> Walls | None:
        """Return what is around a rank."""
        return None

    def look(self) -> bool:
        """Hear whether a process that a rank has started is a rank of a group of its own. Raises `StartsOwnRanks`."""
        if self._home is None:
            return False
        before = len(self._home.unranked)
        self._home.callers()
        if any(caller.hello["place"] for caller in self._home.unranked):
            raise StartsOwnRanks
        return len(self._home.unranked) > before

    def end_attempt(self) -> None:
        """End what the ranks left running, and give the attempt's ports back."""
        with contextlib.suppress(BreakrankError):
            self.session.clear()
        self._release_ports()

    def close(self, write: Callable[..., None]) -> None:
        """Write which processes trained, or joined a group, and are no ranks."""
        if self._home is not None:
            self._home.callers()
            self._home.write_unranked(write, self._attempt)
            self._home.close()

    def _release_ports(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None
        for port in self._ports:
            port.close()
        self._ports = []

    def _start_rank(self, plan: Plan, rank: int, attempt: int, folder: Path, view: View, port: int) -> RankProcess:
        lines = lines_of(folder, attempt)
        log, stacks = lines / f"rank-{rank}.log", lines / f"rank-{rank}.stacks"
        try:
            create_log(str(log))
            words = CrashDump(lines / f"rank-{rank}.words", records_of(folder, attempt) / f"rank-{rank}.crash")
        except OSError as error:
            raise unwritable(f"cannot allocate the log of rank {rank}", folder, error) from None
        boot = {
            "plan": str(view.inside(folder / LINES / "plan.json")),
            "rank": rank,
            "attempt": attempt,
            "world": plan.ranks,
            "log": str(view.inside(log)),
            "stacks": str(view.inside(stacks)),
            "words": str(view.inside(words.path)),
            "channel": 3,
            "program": plan.program,
            "programs": str(self.programs),
            "agent": self.agent,
        }
        env = self._environment(plan, rank, attempt, port)
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            channel, end = socket.socketpair()
            ours.callback(channel.close)
            theirs.callback(end.close)
            null = os.open(os.devnull, os.O_RDONLY)
            theirs.callback(os.close, null)
            pipes: dict[str, int] = {}
            ends = [null]
            for name in ("out", "err"):
                pipes[name], into = open_pipe()
                ours.callback(os.close, pipes[name])
                theirs.callback(os.close, into)
                ends.append(into)
            pid = self._spawn(plan, boot, env, view, [*ends, end.fileno()], channel)
            ours.pop_all()
        channel.setblocking(False)
        return RankProcess(rank, pid, LogReader(str(log)), channel, words, pipes, port, plan.ranks, self._walls(rank))

    def _spawn(
        self,
        plan: Plan,
        boot: dict[str, Any],
        env: dict[str, str],
        view: View,
        descriptors: list[int],
        channel: socket.socket,
    ) -> int:
        around = self._walls(boot["rank"])
        walls = (around.pid, around.flags()) if around is not None else NO_WALLS
        if plan.command:
            # As it would be started by hand: cold, its own main module, its own arguments.
            env["BREAKRANK_ENTER"] = json.dumps(boot)
            if not self.agent:
                del env["BREAKRANK_ENTER"]
            if self._home is not None:
                env |= {HOME: self._home.address, SECRET: self._home.secret}
            # Walls have the mounts of the view in them.
            join = view.holder if around is None else 0
            command = command_line(plan.command_of(boot["attempt"]))
            return self.session.spawn(command, env, view.folder, descriptors, join, walls)
        if self.zygotes is None:
            env["BREAKRANK_BOOT"] = json.dumps(boot)
            command = [sys.executable, "-m", "breakrank_agent.start.boot"]
            return self.session.spawn(command, env, view.folder, descriptors, walls=walls)
        pid = self.zygotes.fork(plan.framework, boot, env, view.folder, descriptors, walls)
        self.session.adopt(pid)
        channel.send(b"\n")
        return pid

    def _environment(self, plan: Plan, rank: int, attempt: int, port: int) -> dict[str, str]:
        env = self._inherited()
        env |= environment.torchrun(rank, plan.ranks, attempt, plan.restarts, self.session.id, port)
        env |= {
            "BREAKRANK_SEED": str(plan.seed),
            "BREAKRANK_STEPS": str(plan.steps),
            "BREAKRANK_MERGED": str(plan.merged),
        }
        # Before the ranks have a place, this is the environment that all of them have in common.
        framework = profile(plan.framework)
        if framework.cluster is not None and (addresses := self._addresses()):
            # The namespaces of an elastic job outlast the ranks that were in them.
            env |= framework.cluster(rank, addresses[: plan.ranks], environment.of_rank(plan.environment, rank))
        # All ranks are on this machine; without it gloo looks the host's own name up.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if plan.command:
            # As torchrun does where several ranks share a machine.
            env.setdefault("OMP_NUM_THREADS", "1")
        if plan.pin:
            # Importing torch's compiler makes a folder for its cache: not outside of ours.
            env.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{os.path.dirname(self._staged())}/torchinductor")
            env |= {
                **environment.PINNED,
                **framework.environment,
                "PYTHONDONTWRITEBYTECODE": "1",
            }
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [self._staged(), env.get("PYTHONPATH", "")]))
        return env | environment.of_rank(plan.environment, rank)

    def _inherited(self) -> dict[str, str]:
        """Return the environment that the ranks start from: ours, without what is about us."""
        named = {*RANK_VARIABLES, *_MEETING, *(name for one in all_frameworks().values() for name in one.variables)}
        return {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k not in named}

    def _staged(self) -> str:
        """Return the path of the agent's copy as the ranks see it."""
        return str(self.staged if self._view is None else self._view.inside(self.staged))


class Process(LocalKind):
    """Ranks without anything around them."""

    name = "process"

    def make(self, resources: Resources, spec: RunSpec) -> ProcessRunner:
        """Return a runner for one run."""
        return ProcessRunner(resources.session, resources.importable, spec.programs, spec.agent, resources.zygotes)

    def warm_up(self, resources: Resources, plan: Plan) -> None:
        """Have imported what the plan's ranks are forked from, while other things are made ready."""
        ProcessRunner(resources.session, resources.importable, Path(), zygotes=resources.zygotes).warm_up(plan)


def _reserve_port() -> socket.socket:
    """Return a socket that holds a free port for rank 0's server to bind, without a race.

    It is bound alone, so nobody else gets the port; only then is the address made reusable, and it never listens, so
    a server that sets SO_REUSEADDR, as they all do, may bind the same port while it is held.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


def stage_agent(folder: Path, source: Path | None = None) -> Path:
    """Copy the agent into a folder of its own in `folder` and return that; an equal one that is there already is used.

    `source` is another agent than the installed one. The copy goes on the path of whatever interpreter runs the ranks,
    which need nothing else of ours. It is compiled for this interpreter: no rank has to do that anew.
    """
    import compileall
    import hashlib

    import breakrank_agent

    source = source or Path(breakrank_agent.__file__).parent
    contents = hashlib.sha256(SITECUSTOMIZE.encode())
    for path in sorted(source.rglob("*.py")):
        contents.update(b"\0".join((os.fsencode(path.relative_to(source)), path.read_bytes(), b"")))
    # Frames of a file with these two words in its name are passed over when `warnings` and `logging` count the calls of
    # `stacklevel` (Lib/warnings.py, _is_internal_filename): a user's warning names the user's line, not our wrapper's.
    target = folder / f"agent-{contents.hexdigest()[:12]}-importlib_bootstrap"
    if os.path.lexists(target):
        check_ours(target)
        return target
    if not sys.dont_write_bytecode:
        # The installed source is compiled, if one may write there: the next copy then has the bytecode.
        compileall.compile_dir(source, quiet=2)
    scratch = folder / f"{target.name}.{os.getpid()}"
    # One that was killed in the midst of it may have left a part, under the same number.
    shutil.copytree(source, scratch / source.name, dirs_exist_ok=True)
    (scratch / "sitecustomize.py").write_text(SITECUSTOMIZE)
    compileall.compile_dir(scratch, quiet=2)
    try:
        scratch.rename(target)
    except OSError:
        # Another session was faster.
        shutil.rmtree(scratch)
        if not target.exists():
            raise
    return target


RUNNER = Process()
