"""The runner `join`: ranks that any launcher starts. The command runs as it is, and the agent in each rank calls home.

The environment names the socket and its secret: `breakrank.runners.join_socket`, `breakrank_agent.start.join`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from breakrank.files.disk_space import unwritable
from breakrank.history.output import Output, open_pipe
from breakrank.history.reader import LINES, lines_of, records_of
from breakrank.host.crash_dump import CrashDump
from breakrank.host.node_pid import Pid
from breakrank.host.places import is_there
from breakrank.host.session import Session
from breakrank.host.supervisor import descendants, is_running
from breakrank.runners.base import RankProcess
from breakrank.runners.engine import End, Engine, Launch
from breakrank.runners.join_socket import AnyCaller, Caller, Home
from breakrank.runners.kind import LocalKind, Resources, RunSpec
from breakrank.runners.process import OURS, RANK_VARIABLES
from breakrank.runners.ray.command import is_ray, joins_cluster
from breakrank.runners.ray.engine import RayEngine
from breakrank.runners.slurm.command import is_slurm
from breakrank.runners.slurm.engine import SlurmEngine
from breakrank.runners.workdir import View, copied_view
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.entry import GUEST, HOME, SECRET
from breakrank_agent.protocol.identity import find_identity, is_launcher
from breakrank_agent.protocol.log import LogReader, create_log
from breakrank_agent.protocol.traceback_text import innermost

#: The most attempts that may fail before any rank of them has called.
_MOST_SKIPPED = 100
#: The most callers that wait for the next attempt.
_MOST_HELD = 1024
#: Seconds between two looks for ranks that cannot call, while some are missing.
_LOOK_S = 0.1
#: Seconds between two looks at whether a job without ranks waits.
_ASKED_S = 1.0
#: Options of the interpreter that keep our `sitecustomize` out.
_CLOSED = {"I": "-I", "E": "-E", "S": "-S"}
#: The rank whose failure a launcher saw first, in torchrun's table and in Open MPI's notice.
_BLAMES = re.compile(r"Root Cause.*?\brank\s*:\s*(\d+)|noticed that process rank (\d+) with PID", re.DOTALL)


class JoinRunner:
    """Runs one command, and takes in the ranks that call. `staged` is the agent's copy.

    Without `agent` the command runs as if we were not there. As a `guest` it has our own environment, stdin, stdout and
    stderr, else what it prints is kept in the run directory.
    """

    def __init__(
        self,
        session: Session,
        staged: Path,
        agent: bool = True,
        guest: bool = False,
        started: Callable[[int], None] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._started = started
        self._engine = engine or Engine()
        self._session = session
        self._staged = staged
        self._agent = agent
        self._guest = guest
        self._home = Home()
        self._held: list[AnyCaller] = []
        #: The ranks of this attempt that have been here, with their processes.
        self._here: dict[int, Pid] = {}
        self._pids: set[Pid] = set()
        self._outputs: dict[int, Output] = {}
        self._sources = select.epoll()
        self._closed: dict[int, str] = {}
        self._looked = self._asked = self._left = self._patience_s = 0.0
        #: The command's process; 0 before it is started.
        self.pid = self._attempt = self._world = 0
        self._status: int | None = None
        self._gone = self._ended = self._own = False
        self._view = View(Path())
        self._waiting = ""

    @property
    def status(self) -> int | None:
        """The command's exit code, or minus the signal; None if we ended it, or it still runs."""
        return None if self._ended else self._status

    # --- the Conductor's calls

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the command with the first attempt; yield the ranks of this attempt that have called already."""
        self._attempt = attempt
        self._here.clear()
        self._folder, self._view, self._patience_s = folder, view, plan.deadline_s
        if not self.pid:
            self._home.open()
            self._own = not plan.command
            self._launch(plan, folder, view)
        return self.arrivals()

    def look(self) -> bool:
        """Note which processes below the command are ranks that no agent can enter.

        A job that waits for its nodes moves: its deadline begins with its ranks.
        """
        now = time.monotonic()
        if self._waits():
            return True
        missing = not self._here or len(self._here) < self._world
        if not missing or self._gone or not self.pid or now - self._looked < _LOOK_S:
            return False
        self._looked = now
        for pid in (self.pid, *descendants(self.pid)):
            if pid not in self._pids and pid not in self._closed:
                why = _why_closed(pid)
                if why:
                    self._closed[pid] = why
        return False

    def _waits(self) -> bool:
        """Return whether the job waits for its nodes, for the first time or after all of its ranks have ended."""
        now = time.monotonic()
        if self._gone or not self.pid or not self._engine.remote or now - self._asked < _ASKED_S:
            return False
        self._asked = now
        started = any(map(_lives, self._here.values()))
        self._waiting = "" if started else self._engine.waits_for(self._session, self.pid)
        return bool(self._waiting)

    def waiting(self) -> str:
        """Return the reason why the job has no nodes yet, empty if it has some."""
        return self._waiting

    def sources(self) -> list[int]:
        """Return what is readable when the command has printed something.

        A caller is seen at the next look: nobody who calls on and on keeps us awake.
        """
        return [self._sources.fileno(), *self._engine.sources()]

    def arrivals(self) -> Iterator[RankProcess]:
        """Yield the ranks of this attempt that have called since the last time."""
        self._read_outputs()
        for caller in (*self._home.callers(), *self._engine.callers()):
            self._hold(caller)
        for caller in list(self._held):
            if self._number(caller) == self._attempt:
                self._held.remove(caller)
                rank = self._admit(caller)
                if rank is not None:
                    yield rank

    def _hold(self, caller: AnyCaller) -> None:
        """Keep a caller until it is the turn of its attempt, or hang up on one that cannot be a rank."""
        number, said = caller.hello["rank"], caller.hello["attempt"]
        before = self._here.get(number, 0)
        if caller.pid in self._pids or len(self._held) >= _MOST_HELD:
            self._home.refuse(caller, f"process {caller.pid} called again and again")
        elif said is not None and said > self._attempt + _MOST_SKIPPED:
            self._home.refuse(caller, f"process {caller.pid} said that it is of attempt {said}, after {self._attempt}")
        elif self._guest and said is None and before and _lives(before):
            # It would wait for the one that is here; both go on as if we were not.
            self._home.refuse(caller, f"processes {before} and {caller.pid} are both rank {number}")
        else:
            self._held.append(caller)

    def told(self, report: dict[str, Any]) -> None:
        """Take the end of the command."""
        if report["child"] == self.pid and report["what"] == "ended":
            self._status, self._gone, self._left = report["status"], True, time.monotonic()

    def over(self) -> bool:
        """Return whether no rank is to come in this attempt: the command has ended, or begun another attempt."""
        if any(self._number(caller) > self._attempt for caller in self._held):
            return True
        if not self._gone and self._pids and self._engine.over(self.pid):
            return True
        # A command may leave ranks behind that have not called yet.
        return self._gone and (bool(self._pids) or self._waited_long() or not self._others())

    def _waited_long(self) -> bool:
        """Return whether a rank of a job that nobody ends has not called for so long that none is expected."""
        return self._guest and time.monotonic() - self._left > self._patience_s

    def follows(self) -> int | None:
        """Return the number of the attempt that the launcher has begun, if it has."""
        return min((self._number(caller) for caller in self._held), default=None)

    def end_attempt(self) -> None:
        """Leave everything to the launcher."""

    def end(self) -> None:
        """End the command, and hang up on who has called and is not taken."""
        if self.pid and not self._gone and not self._ended:
            self._ended = True
            self._engine.end(self._session, self.pid)
        for caller in self._held:
            caller.hang_up()
        self._held.clear()
        self._home.close()

    def close(self, write: Callable[..., None]) -> None:
        """Write how the launcher ended, whom it blames, and which processes could not be entered."""
        self._read_outputs()
        self._sources.close()
        for descriptor, output in self._outputs.items():
            os.close(descriptor)
            output.close()
        self._outputs.clear()
        self._home.write_unranked(write, self._attempt, self.pid)
        end = self._engine.close(self._session, self.pid, write, End(self._attempt, self.status))
        status = end.status
        printed = self._folder / "launcher.err"
        text = printed.read_text(errors="replace") if printed.exists() else ""
        blames = sorted({int(one or other) for one, other in _BLAMES.findall(text)})
        closed = [*dict.fromkeys(self._closed.values()), *self._home.refused, *end.closed]
        last = innermost(text) if status else None
        said = {"said": f"{last.type}: {last.message}"[:500]} if last is not None else {}
        ended = {"status": status, "ended": self._ended}
        if self._own and self._pids:
            # The command is none of the user's: it reports nothing, and races with nobody.
            return
        write("launcher", attempt=self._attempt, **ended, blames=blames, closed=closed, **said)

    # --- the command

    def _launch(self, plan: Plan, folder: Path, view: View) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k not in RANK_VARIABLES}
        if self._guest:
            # It is the user's own command, as the user's shell would have started it.
            env = {**os.environ, GUEST: "1"}
        if self._agent:
            path = [str(view.inside(self._staged)), env.get("PYTHONPATH", "")]
            env |= {
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                HOME: self._home.address,
                SECRET: self._home.secret,
            }
        with contextlib.ExitStack() as theirs:
            null = os.open(os.devnull, os.O_RDONLY)
            theirs.callback(os.close, null)
            ends = [0, 1, 2] if self._guest else [null]
            for name in () if self._guest else ("out", "err"):
                reader, into = open_pipe()
                theirs.callback(os.close, into)
                self._outputs[reader] = Output(folder / f"launcher.{name}")
                self._sources.register(reader, select.EPOLLIN)
                ends.append(into)
            command = self._engine.command(plan, folder)
            env |= dict(plan.environment)
            launch = Launch(self._session, plan, env, folder, view.folder, view.inside(self._staged))
            env |= self._engine.prepare(launch)
            self.pid = self._engine.launch(self._session, command, env, view.folder, ends, view.holder)
        if self._started is not None:
            self._started(self.pid)

    def _read_outputs(self) -> None:
        for descriptor, output in self._outputs.items():
            if not output.drain(descriptor):
                # The loop need not be told of its end again and again.
                with contextlib.suppress(OSError):
                    self._sources.unregister(descriptor)

    def _others(self) -> list[int]:
        """Return what runs below the supervisor beside what outlives a run; as a guest, what may yet become a rank."""
        below = descendants(self._session.supervisor_pid)
        others = [pid for pid in below if pid not in self._session.kept and pid != self.pid]
        return [pid for pid in others if _may_call(pid)] if self._guest else others

    # --- ranks that call

    def _number(self, caller: AnyCaller) -> int:
        """Return the attempt that a caller belongs to.

        A launcher says it, or a rank that was here comes again. A world of another size is another attempt, too, if the
        launcher counts restarts: torchrun counts none when nodes come and go.
        """
        said = caller.hello["attempt"]
        resized = said is not None and bool(self._here) and caller.hello["world"] != self._world
        again = resized or caller.hello["rank"] in self._here
        return max(self._attempt if said is None else said, self._attempt + again)

    def _admit(self, caller: AnyCaller) -> RankProcess | None:
        """Take a caller in, here or elsewhere; None if it has ended since."""
        rank, world = caller.hello["rank"], caller.hello["world"]
        try:
            if isinstance(caller, Caller):
                taken = self._take(caller)
            else:
                boot = {"rank": rank, "attempt": self._attempt, "world": world}
                taken = self._engine.admit(caller, boot, self._folder)
        except ProcessLookupError:
            caller.hang_up()
            return None
        self._here[rank], self._world = caller.pid, world
        self._pids.add(caller.pid)
        return taken

    def _take(self, caller: Caller) -> RankProcess:
        """Tell a caller of this machine what it needs to begin. Raises `ProcessLookupError` if it has ended since."""
        rank = caller.hello["rank"]
        lines = lines_of(self._folder, self._attempt)
        log, stacks = lines / f"rank-{rank}.log", lines / f"rank-{rank}.stacks"
        try:
            self._session.follow(caller.pid)
            create_log(str(log))
            words = CrashDump(
                lines / f"rank-{rank}.words", records_of(self._folder, self._attempt) / f"rank-{rank}.crash"
            )
            reader = LogReader(str(log))
        except ProcessLookupError:
            raise
        except OSError as error:
            raise unwritable(f"cannot take rank {rank} in", self._folder, error) from None
        world = caller.hello["world"]
        boot = {
            "plan": str(self._view.inside(self._folder / LINES / "plan.json")),
            "rank": rank,
            "attempt": self._attempt,
            "world": world,
            "log": str(self._view.inside(log)),
            "stacks": str(self._view.inside(stacks)),
            "words": str(self._view.inside(words.path)),
        }
        with contextlib.suppress(OSError):
            caller.line.send(json.dumps(boot).encode() + b"\n")
        store = caller.hello["store"]
        return RankProcess(rank, caller.pid, reader, caller.line, words, {}, store, world)


def _lives(pid: Pid) -> bool:
    """Return whether a process of this machine or another runs."""
    try:
        return is_running(pid) if isinstance(pid, int) else is_there(pid)
    except OSError:
        return False


def _may_call(pid: int) -> bool:
    """Return whether a process is a rank by its environment, and has not called yet: it has only just been started."""
    try:
        environment = dict(word.partition("=")[::2] for word in _words(Path(f"/proc/{pid}/environ")))
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False
    who = find_identity(environment)
    return program.startswith("python") and who is not None and who.world is not None and HOME in environment


def _why_closed(pid: int) -> str:
    """Return why a process cannot be entered, empty if it can be, or is no rank's."""
    try:
        command = _words(Path(f"/proc/{pid}/cmdline"))
        environment = dict(word.partition("=")[::2] for word in _words(Path(f"/proc/{pid}/environ")))
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""
    if not command or is_launcher(command):
        return ""
    text = _short(command, program)
    if program.startswith("python"):
        options = "".join(_options(command))
        keeps = next((option for letter, option in _CLOSED.items() if letter in options), "")
        return f"'{text}' runs with {keeps}, which keeps the agent out" if keeps else ""
    who = find_identity(environment)
    shell = program in ("sh", "bash", "dash", "zsh", "ksh", "busybox", "env")
    if who is None or shell or HOME not in environment or descendants(pid):
        return ""
    return f"'{text}' is rank {who.rank} and no Python"


def _short(command: list[str], program: str) -> str:
    """Return what a process is called: its program and script. The rest of its words may hold what is secret."""
    script = next((word for word in command[1:] if word.endswith(".py")), "")
    return f"{program} {os.path.basename(script)}".rstrip()


def _words(path: Path) -> list[str]:
    return [os.fsdecode(word) for word in path.read_bytes().split(b"\0")[:-1]]


def _options(command: list[str]) -> Iterator[str]:
    """Yield the letters of the interpreter's own options, up to what it runs."""
    words = iter(command[1:])
    for word in words:
        if word in ("-X", "-W"):
            next(words, "")
            continue
        if not word.startswith("-") or word.startswith("--") or "c" in word or "m" in word:
            yield word[1:].partition("c")[0].partition("m")[0] if word.startswith("-") else ""
            return
        yield word[1:]


class Join(LocalKind):
    """Ranks that a command of the user's own starts."""

    name = "join"
    joins = True

    def make(self, resources: Resources, spec: RunSpec) -> JoinRunner:
        """Return a runner for one run."""
        engine = engine_of(spec.plan.command, spec.where or Path())
        return JoinRunner(resources.session, resources.importable, spec.agent, engine=engine)

    def view(self, resources: Resources, spec: RunSpec, where: Path) -> AbstractContextManager[View]:
        """Give ranks that daemons start a copy of the folder: they would not be in an overlay of ours."""
        daemons = engine_of(spec.plan.command, where).daemons
        if daemons and not spec.in_place:
            return contextlib.nullcontext(copied_view(where, spec.folder, resources.runs, daemons))
        return super().view(resources, spec, where)


def engine_of(command: Sequence[str], folder: Path) -> Engine:
    """Return what starts the ranks of a command."""
    if is_slurm(command, folder):
        return SlurmEngine()
    return RayEngine(joins_cluster(command, folder, os.environ)) if is_ray(command, folder) else Engine()


RUNNER = Join()
