"""Ranks that any launcher starts: the command runs as it is, and the agent in each rank calls home.

Home is an abstract socket (unix(7)), known with its secret from the environment; see `breakrank_agent.calling`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from breakrank.history import LINES, lines_of, records_of
from breakrank.last_words import LastWords
from breakrank.output import Output, open_pipe
from breakrank.room import unwritable
from breakrank.runners.process import OURS, RANK_VARIABLES
from breakrank.runners.rank import RankProcess
from breakrank.runners.view import View
from breakrank.script import command_line
from breakrank.session import Session
from breakrank.warden import descendants
from breakrank_agent.calling import HOME, SECRET
from breakrank_agent.history import LogReader, create_log
from breakrank_agent.identity import find_identity, is_launcher
from breakrank_agent.plan import Plan

#: The longest that a caller may take over its first line.
_HELLO_BYTES = 4096
#: How often it is looked for ranks that cannot call, while some are missing.
_LOOK_S = 0.1
#: Options of the interpreter that keep our `sitecustomize` out.
_CLOSED = {"I": "-I", "E": "-E", "S": "-S"}
#: How launchers name the rank whose failure they saw first: torchrun's table, and Open MPI's notice.
_BLAMES = re.compile(r"Root Cause.*?\brank\s*:\s*(\d+)|noticed that process rank (\d+) with PID", re.DOTALL)


@dataclass
class _Caller:
    """A process that has called: its line, its pid as the kernel says, and what it said."""

    line: socket.socket
    pid: int
    heard: bytes = b""
    hello: dict[str, Any] = field(default_factory=dict)


class JoinRunner:
    """Runs one command, and takes in the ranks that call. `staged` is the agent's copy.

    Without `agent` the command runs as if we were not there. With `inherit` it has our own stdin, stdout and stderr,
    else what it prints is kept in the run directory.
    """

    launches: ClassVar[bool] = True

    def __init__(
        self,
        session: Session,
        staged: Path,
        agent: bool = True,
        inherit: bool = False,
        started: Callable[[int], None] | None = None,
    ) -> None:
        self._started = started
        self._session = session
        self._staged = staged
        self._agent = agent
        self._inherit = inherit
        self._home = f"breakrank-{secrets.token_hex(8)}"
        self._secret = secrets.token_hex(16)
        self._listener = socket.socket(socket.AF_UNIX)
        self._callers: list[_Caller] = []
        self._held: list[_Caller] = []
        self._here: set[int] = set()
        self._pids: set[int] = set()
        self._outputs: dict[int, Output] = {}
        self._sources = select.epoll()
        self._closed: dict[int, str] = {}
        self._looked = 0.0
        #: The command's process; 0 before it is started.
        self.pid = self._attempt = self._world = 0
        self._status: int | None = None
        self._gone = self._ended = False
        self._view = View(Path())

    @property
    def status(self) -> int | None:
        """The command's exit code, or minus the signal; None if we ended it, or it still runs."""
        return None if self._ended else self._status

    # --- what the Conductor asks for

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterator[RankProcess]:
        """Start the command with the first attempt; yield the ranks of this attempt that have called already."""
        self._attempt = attempt
        self._here.clear()
        self._folder, self._view = folder, view
        if not self.pid:
            self._listener.bind("\0" + self._home)
            self._listener.listen(128)
            self._listener.setblocking(False)
            self._sources.register(self._listener, select.EPOLLIN)
            self._launch(plan, folder, view)
        return self.arrivals()

    def sources(self) -> list[int]:
        """Return what is readable when somebody calls, or the command has printed something."""
        return [self._sources.fileno()]

    def arrivals(self) -> Iterator[RankProcess]:
        """Yield the ranks of this attempt that have called since the last time."""
        self._read_outputs()
        self._look_for_the_closed()
        self._accept()
        for caller in [*self._held, *(c for c in list(self._callers) if self._has_said(c))]:
            if caller in self._callers:
                self._callers.remove(caller)
                self._held.append(caller)
            if self._number(caller) == self._attempt:
                self._held.remove(caller)
                rank = self._admit(caller)
                if rank is not None:
                    yield rank

    def told(self, report: dict[str, Any]) -> None:
        """Take the end of the command."""
        if report["child"] == self.pid and report["what"] == "ended":
            self._status, self._gone = report["status"], True

    def over(self) -> bool:
        """Whether no rank is to come in this attempt: the command has ended, or begun another attempt."""
        if any(self._number(caller) > self._attempt for caller in self._held):
            return True
        # A command may leave ranks behind that have not called yet.
        return self._gone and (bool(self._pids) or not self._others())

    def follows(self, attempt: int, again: bool) -> int | None:
        """Return the number of the attempt that the launcher has begun, if it has."""
        return min((self._number(caller) for caller in self._held), default=None)

    def end_attempt(self) -> None:
        """Leave everything to the launcher."""

    def end(self) -> None:
        """End the command, and hang up on who has called and is not taken."""
        if self.pid and not self._gone and not self._ended:
            self._ended = True
            self._session.signal(self.pid, signal.SIGKILL)
        for caller in [*self._held, *self._callers]:
            caller.line.close()
        self._held.clear()
        self._callers.clear()
        self._listener.close()
        self._read_outputs()
        self._sources.close()
        for descriptor, output in self._outputs.items():
            os.close(descriptor)
            output.close()
        self._outputs.clear()

    def close(self) -> None:
        """There is nothing more to give back."""

    def sum_up(self, write: Callable[..., None]) -> None:
        """Write how the launcher ended, whom it blames, and which processes could not be entered."""
        printed = self._folder / "launcher.err"
        text = printed.read_text(errors="replace") if printed.exists() else ""
        blames = sorted({int(one or other) for one, other in _BLAMES.findall(text)})
        closed = list(dict.fromkeys(self._closed.values()))
        write("launcher", attempt=self._attempt, status=self.status, ended=self._ended, blames=blames, closed=closed)

    # --- the command

    def _launch(self, plan: Plan, folder: Path, view: View) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k not in RANK_VARIABLES}
        if self._agent:
            path = [str(view.inside(self._staged)), env.get("PYTHONPATH", "")]
            env |= {"PYTHONPATH": os.pathsep.join(filter(None, path)), HOME: self._home, SECRET: self._secret}
        with contextlib.ExitStack() as theirs:
            null = os.open(os.devnull, os.O_RDONLY)
            theirs.callback(os.close, null)
            ends = [0, 1, 2] if self._inherit else [null]
            for name in () if self._inherit else ("out", "err"):
                reader, into = open_pipe()
                theirs.callback(os.close, into)
                self._outputs[reader] = Output(folder / f"launcher.{name}")
                self._sources.register(reader, select.EPOLLIN)
                ends.append(into)
            command = command_line(plan.command)
            env |= dict(plan.environment)
            self.pid = self._session.spawn(command, env, view.folder, ends, join=view.holder)
        if self._started is not None:
            self._started(self.pid)

    def _read_outputs(self) -> None:
        for descriptor, output in self._outputs.items():
            if not output.drain(descriptor):
                # Whoever waits for something to read need not be told of its end again and again.
                with contextlib.suppress(OSError):
                    self._sources.unregister(descriptor)

    def _others(self) -> list[int]:
        """Return what runs below the warden beside what outlives a run."""
        below = descendants(self._session.warden_pid)
        return [pid for pid in below if pid not in self._session.kept and pid != self.pid]

    # --- who calls

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                line, _ = self._listener.accept()
                line.setblocking(False)
                raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                self._callers.append(_Caller(line, struct.unpack("3i", raw)[0]))

    def _has_said(self, caller: _Caller) -> bool:
        """Whether a caller has said who it is; one who does not know the secret is hung up on."""
        try:
            data = caller.line.recv(_HELLO_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        caller.heard += data
        if data and b"\n" not in caller.heard and len(caller.heard) < _HELLO_BYTES:
            return False
        with contextlib.suppress(ValueError):
            caller.hello = json.loads(caller.heard)
        if not data or caller.hello.get("secret") != self._secret:
            self._callers.remove(caller)
            caller.line.close()
            return False
        return True

    def _number(self, caller: _Caller) -> int:
        """Return the attempt that a caller belongs to: a launcher says it, or a rank that was here comes again."""
        said = caller.hello["attempt"]
        again = caller.hello["rank"] in self._here
        return max(self._attempt if said is None else said, self._attempt + again)

    def _admit(self, caller: _Caller) -> RankProcess | None:
        """Tell a caller what it needs to begin; None if it has ended since."""
        rank = caller.hello["rank"]
        lines = lines_of(self._folder, self._attempt)
        log, stacks = lines / f"rank-{rank}.log", lines / f"rank-{rank}.stacks"
        try:
            self._session.follow(caller.pid)
            create_log(str(log))
            words = LastWords(
                lines / f"rank-{rank}.words", records_of(self._folder, self._attempt) / f"rank-{rank}.crash"
            )
        except ProcessLookupError:
            caller.line.close()
            return None
        except OSError as error:
            raise unwritable(f"cannot take rank {rank} in", self._folder, error) from None
        self._here.add(rank)
        self._pids.add(caller.pid)
        self._world = caller.hello["world"]
        boot = {
            "plan": str(self._view.inside(self._folder / LINES / "plan.json")),
            "rank": rank,
            "attempt": self._attempt,
            "world": self._world,
            "log": str(self._view.inside(log)),
            "stacks": str(self._view.inside(stacks)),
            "words": str(self._view.inside(words.path)),
        }
        with contextlib.suppress(OSError):
            caller.line.send(json.dumps(boot).encode() + b"\n")
        store = caller.hello["store"]
        return RankProcess(rank, caller.pid, LogReader(str(log)), caller.line, words, {}, store, self._world)

    # --- who cannot call

    def _look_for_the_closed(self) -> None:
        """Note which processes below the command are ranks that no agent can enter."""
        now = time.monotonic()
        missing = not self._here or len(self._here) < self._world
        if not missing or self._gone or not self.pid or now - self._looked < _LOOK_S:
            return
        self._looked = now
        for pid in (self.pid, *descendants(self.pid)):
            if pid not in self._pids and pid not in self._closed:
                why = _why_closed(pid)
                if why:
                    self._closed[pid] = why


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
