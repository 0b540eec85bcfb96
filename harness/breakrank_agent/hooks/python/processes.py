"""The processes that the user's code starts by `multiprocessing`, and what orders them with the rank.

Such a child is no rank: it makes no points and takes no turns. Its reads and writes go on record, in a log of its
own beside the rank's, as sequences of the rank: `child-1`, and `child-1/thread-1` for its threads. It comes after what
the rank had done when it started it; who has seen it end comes after all that it did.

Children of libraries (loader workers, pools, servers), those that `os.fork` makes, and those of a fork server are left
alone, which a note says.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional
from weakref import WeakKeyDictionary

from breakrank_agent.agent.access_log import process_key
from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.turn_watch import look_out
from breakrank_agent.hooks import after_import
from breakrank_agent.hooks.python.threads import starter_of
from breakrank_agent.protocol.entry import SPAWNED, restore_path
from breakrank_agent.protocol.log import create_log

WAITS_FOR = ""
IN_CHILDREN = True

#: Modules between `Process.start` and whoever wants the process. Pools and managers are not among them.
_BETWEEN = ("multiprocessing.process", "multiprocessing.context", "torch.multiprocessing", "breakrank_agent")
#: The most children of one process that are watched: each has a log, of which the whole is reserved on the disk.
_MOST = 64


def install(agent: Agent) -> None:
    """Watch the processes that are started, if accesses are recorded."""
    if not agent.watches:
        return
    children = _Children(agent)
    after_import("multiprocessing.process", children.watch_start)
    after_import("multiprocessing.popen_fork", children.watch_end)
    after_import("multiprocessing.connection", children.watch_wait)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("os.fork", "os.forkpty"):
            children.forks()

    sys.addaudithook(hook)


class _Children:
    """The children of this process."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        #: By what `multiprocessing` has of each: its name.
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._said: set[str] = set()
        self._count = 0
        self._starting = False
        agent.on.child_begin.append(self._begin_anew)

    def _begin_anew(self) -> None:
        self._names.clear()
        self._said.clear()
        self._count, self._starting = 0, False

    # --- the start of children

    def watch_start(self) -> None:
        """Wrap what starts a process of `multiprocessing`."""
        import multiprocessing.process as module

        interpose(module.BaseProcess, "start", around=self._start)

    @contextlib.contextmanager
    def _start(self, process: Any) -> Iterator[None]:
        """While a process is started, have it watched, if it is the user's and can be."""
        if self._agent.busy or not self._agent.sees:
            yield
            return
        method = _method(process)
        # The two frames above are those of contextlib and of the wrapper.
        why = self._why_not(starter_of(sys._getframe(2), _BETWEEN), method)
        name = "" if why else self._make()
        if not name:
            self._say(why or "processes for which there is no log")
        self._starting = True
        try:
            with self._announced(name, method):
                yield
        except BaseException:
            if name:
                os.unlink(_log_of(self._agent, name))
            raise
        finally:
            self._starting = False
        if name:
            self._names[process._popen] = name
            self._agent.record("child", name=name)
            self._look_out()

    def _why_not(self, starter: str, method: str) -> str:
        """Say which processes are left alone, if this is one of them."""
        agent = self._agent
        if starter:
            return f"processes that {starter} starts"
        if method not in ("fork", "spawn"):
            return f"processes that are started by {method}"
        if not (agent.forks.log_path and agent.forks.plan_path):
            return "processes that a rank starts in a container"
        return f"processes after the first {_MOST}" if self._count >= _MOST else ""

    def _make(self) -> str:
        """Make the log of a child and return its name; empty if there is no room for one."""
        agent = self._agent
        self._count += 1
        name = f"{agent.recorder.child or 'child'}-{self._count}"
        try:
            with agent.quietly():
                create_log(_log_of(agent, name))
        except OSError:
            return ""
        return name

    @contextlib.contextmanager
    def _announced(self, name: str, method: str) -> Iterator[None]:
        """Tell a child, while it is being started, who it is; what this thread has done comes before it."""
        if not name:
            yield
            return
        agent, log = self._agent, _log_of(self._agent, name)
        agent.accesses.sync("release", process_key(agent.rank, name))
        if method == "fork":
            with agent.forks.announced(name, log):
                yield
            return
        path = os.environ.get("PYTHONPATH")
        spec = {"plan": agent.forks.plan_path, "rank": agent.rank, "attempt": agent.attempt, "step": agent.clock.step}
        os.environ[SPAWNED] = json.dumps({**spec, "name": name, "log": log, "path": path})
        # Ranks of our own programs have found the agent without it.
        copy = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (copy, path)))
        try:
            yield
        finally:
            del os.environ[SPAWNED]
            restore_path(path)

    def _look_out(self) -> None:
        """Under a controlled schedule, see whether a wait for a child keeps all others from moving."""
        agent = self._agent
        if agent.turns is not None and not agent.plan.command and self._count == 1:
            look_out(agent.turns)

    # --- the end of children

    def watch_end(self) -> None:
        """Wrap what finds that a child has ended, by `join`, `is_alive`, `exitcode` or otherwise."""
        import multiprocessing.popen_fork as module

        def polled(popen: Any, status: Optional[int]) -> None:
            if status is not None:
                self._ended(popen)

        interpose(module.Popen, "poll", receiver, polled)

    def watch_wait(self) -> None:
        """Wrap what waits for the descriptors that children close by ending, their sentinels."""
        import multiprocessing.connection as connection

        def ready(_: Any, found: Any) -> None:
            for popen in [popen for popen in list(self._names) if popen.sentinel in found]:
                self._ended(popen)

        interpose(connection, "wait", after=ready)

    def _ended(self, popen: Any) -> None:
        name = self._names.get(popen)
        if name and not self._agent.busy:
            self._agent.accesses.sync("acquire", process_key(self._agent.rank, name), ended=name)

    # --- children that are not watched

    def forks(self) -> None:
        """Note that a fork, which is about to happen, is not watched."""
        agent = self._agent
        if agent.sees and not self._starting and not agent.busy:
            starter = starter_of(sys._getframe(2), _BETWEEN)
            self._say(f"processes that {starter} forks" if starter else "processes that the program forks itself")

    def _say(self, what: str) -> None:
        if what not in self._said and self._agent.sees:
            self._said.add(what)
            self._agent.record("note", text=f"{what} are not watched", limits=True, outsiders=True)


def _method(process: Any) -> str:
    """Return how a process is started: `fork`, `spawn` or `forkserver`."""
    from multiprocessing import get_start_method

    return str(getattr(process, "_start_method", None) or get_start_method())


def _log_of(agent: Agent, name: str) -> str:
    """Return where the log of a child lies: beside the rank's."""
    base, _, _ = agent.forks.log_path.partition(f".{agent.recorder.child}.log" if agent.recorder.child else ".log")
    return f"{base}.{name}.log"
