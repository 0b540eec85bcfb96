"""A session: one owner, one supervisor, one id that everything of ours carries."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil

from breakrank.errors import BreakrankError, CutShortError
from breakrank.host import supervisor
from breakrank.host.node_pid import Pid
from breakrank.host.pidfds import ExitWatch
from breakrank.host.session_name import VARIABLE, is_alive, session_id
from breakrank_agent.protocol.checked import Unfit, check, is_flag, is_text, parse, whole

#: The seconds that the supervisor may take to answer; to end all that is below it takes longer on a machine that is
#: busy.
ANSWER_S, CLEAR_S = 30.0, 120.0
#: The seconds between looks whether it stands still, while it does not answer.
_LOOK_S = 1.0
#: The seconds for processes to end that were killed in the place of a supervisor that is gone.
_ENDS_WITHIN_S = 10.0
_GONE = "the supervisor process is gone; was it killed?"
_IS_PID = whole(-1, 1 << 22)
#: The supervisor's messages, as far as anything is made of them.
_FROM_SUPERVISOR = {
    **{"pid": _IS_PID, "child": _IS_PID, "signalled": _IS_PID, "adopted": _IS_PID, "cleared": whole(), "text": is_text},
    **{"what": is_text, "status": whole(-256, 256), "done": is_flag, "noted": is_flag},
}
#: No process whose namespaces are entered, and no kinds of them.
NO_WALLS = (0, 0)


class Source(Protocol):
    """A teller of processes beside the supervisor: a node tells of the ranks there."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to tell."""

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield the reports since the last call, without waiting. Raises `BreakrankError` if it is gone."""


class Session:
    """The owner's end of the supervisor. Raises `BreakrankError` when the supervisor is gone.

    A supervisor that is gone, or does not answer, costs the run in which that is found: whatever carries our id is
    ended then, and the next run has another one.
    """

    def __init__(self, controller_pid: int | None = None) -> None:
        self.id = session_id()
        #: The variable that every process of ours has in its environment.
        self.mark = {VARIABLE: self.id}
        self._owners = {os.getpid(), controller_pid or os.getpid()}
        self._queue: list[dict[str, Any]] = []
        #: A new supervisor is told these: the control groups to remove at the end, and the programs to run then.
        self._folders: dict[str, None] = {}
        self._last: dict[str, dict[str, Any]] = {}
        #: Processes that outlive a run: the zygotes.
        self.kept: set[int] = set()
        #: Processes below the supervisor that are not its children, as a launcher's ranks.
        self._exit_watch = ExitWatch()
        self._sources: list[Source] = []
        self._poll = select.epoll()
        self._poll.register(self._exit_watch, select.EPOLLIN)
        self._lost = False
        self._begin()

    def _begin(self) -> None:
        """Start a supervisor."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, supervisor.PACKET)
        command = [sys.executable, "-I", "-S", str(Path(supervisor.__file__)), str(theirs.fileno())]
        self._process = subprocess.Popen(
            [*command, *(str(pid) for pid in self._owners)],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**self.mark, "PATH": os.environ.get("PATH", "")},
        )
        theirs.close()
        ours.settimeout(ANSWER_S)
        self.socket = ours
        self._lost = False
        self._poll.register(self.socket, select.EPOLLIN)

    def renew(self) -> None:
        """Have a supervisor that works: one that is gone or stands still is replaced. It is called between runs."""
        with contextlib.suppress(BreakrankError):
            # Only an answer shows that it answers; there is no such process of ours.
            if not self._lost:
                self.signal(0, signal.SIGTERM)
        if self._lost:
            self._replace()

    def _replace(self) -> None:
        """End a supervisor that does not answer, and all that carries our id; start another one."""
        self._process.kill()
        self._process.wait()
        self._poll.unregister(self.socket)
        self.socket.close()
        self._queue.clear()
        self._exit_watch.forget()
        # Its children ended with it, and theirs did not.
        self._end_all()
        self.kept.clear()
        self._begin()
        if self._folders:
            self._send({"do": "own", "folders": list(self._folders)})
        for program in self._last.values():
            self._send(program)
            self._await("noted")

    def _end_all(self) -> None:
        """Kill all that carries our id, until nothing is left of it."""
        kill_all(lambda: [pid for pid in _carrying(self.id) if pid != os.getpid()], _ENDS_WITHIN_S)

    @property
    def ends_jobs(self) -> bool:
        """True if what was started here is ended from here."""
        return True

    @property
    def supervisor_pid(self) -> int:
        """The supervisor's process number."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to tell."""
        return self._poll.fileno()

    def spawn(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: Path,
        descriptors: Sequence[int],
        join: int = 0,
        walls: tuple[int, int] = NO_WALLS,
    ) -> int:
        """Start a process below the supervisor and return its pid.

        `descriptors` become its 0, 1, 2, 3 …; `join` is a process whose mount namespace it enters, `walls` one with
        the kinds of its namespaces, as flags. Raises `BreakrankError` when it cannot be started.
        """
        message = {"do": "spawn", "id": 0, "argv": list(argv), "env": {**env, **self.mark}}
        message |= {"cwd": str(cwd), "join": join, "walls": list(walls)}
        data = json.dumps(message).encode()
        try:
            socket.send_fds(self.socket, [data], list(descriptors))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise BreakrankError(f"cannot start {argv[0]}: {error.strerror}") from None
            raise self._gone() from None
        answer = self._await("spawned", "failed")
        if "failed" in answer:
            raise BreakrankError(f"cannot start {argv[0]}: {answer['text']}")
        return int(answer["pid"])

    def attach(self, source: Source) -> None:
        """Hear a source of reports, too."""
        self._sources.append(source)
        self._poll.register(source.fileno(), select.EPOLLIN)

    def detach(self, source: Source) -> None:
        """Hear a source no more, while its descriptor is still open."""
        if source in self._sources:
            self._sources.remove(source)
            with contextlib.suppress(OSError, ValueError):
                self._poll.unregister(source.fileno())

    def signal(self, pid: Pid, number: int) -> bool:
        """Send a signal to a process of ours; return False if it has ended and was waited for."""
        if not isinstance(pid, int):
            return pid.node.signal(pid.number, number)
        if pid in self._exit_watch:
            done = self._exit_watch.signal(pid, number)
            if number == signal.SIGKILL and self._folders:
                self._send({"do": "thaw", "pid": pid})
            return done
        self._send({"do": "signal", "pid": pid, "signal": number})
        return bool(self._await("signalled")["done"])

    def signal_all(self, pids: Iterable[Pid], number: int) -> None:
        """Send a signal to processes of ours. Other nodes do it all at the same time."""
        begun = []
        for pid in pids if self.ends_jobs else ():
            if isinstance(pid, int):
                self.signal(pid, number)
            else:
                begun.append(pid.node.begin_signal(pid.number, number))
        for done in begun:
            done()

    def own(self, folders: Sequence[str]) -> None:
        """Have the supervisor remove these control groups, last one first, when we are gone; they need not be there."""
        self._folders.update(dict.fromkeys(folders))
        self._send({"do": "own", "folders": list(folders)})

    def adopt(self, pid: int) -> None:
        """Have the supervisor report on a rank that a zygote has forked; only then may the rank begin."""
        self._send({"do": "adopt", "pid": pid})
        self._await("adopted")

    def follow(self, pid: int) -> None:
        """Tell of a process below the supervisor that somebody else has started and waits for. Raises `OSError`."""
        self._exit_watch.follow(pid)

    def clear(self) -> int:
        """End everything below the supervisor but what is kept; return how many processes there were."""
        self._exit_watch.forget()
        self._send({"do": "clear", "keep": sorted(self.kept)})
        return int(self._await("cleared", limit_s=CLEAR_S)["cleared"])

    def last(self, argv: Sequence[str], name: str = "sweep") -> None:
        """Have the supervisor run a program when we are gone and all below it has ended; none takes that back.

        There may be several, each with a name of its own.
        """
        self._last[name] = {"do": "last", "name": name, "argv": list(argv), "env": {**os.environ}}
        self._send(self._last[name])
        self._await("noted")

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield what waitpid told the supervisor, and the kernel of others, since the last call, without waiting."""
        while select.select([self.socket], [], [], 0)[0]:
            self._queue.append(self._receive())
        queue, self._queue = self._queue, []
        yield from queue
        yield from self._exit_watch.told()
        yield from self._told_elsewhere()

    def _told_elsewhere(self) -> Iterator[dict[str, Any]]:
        """Yield what was told of processes of other nodes."""
        for source in list(self._sources):
            yield from source.told()

    def close(self) -> None:
        """End everything below the supervisor, and the supervisor."""
        self.kept.clear()
        try:
            if _is_stopped(self._process.pid):
                raise self._gone()
            self.clear()
        except BreakrankError:
            self._process.kill()
            self._end_all()
        self._poll.close()
        self._exit_watch.close()
        self.socket.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _gone(self) -> CutShortError:
        self._lost = True
        return CutShortError(_GONE)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self.socket.send(json.dumps(message).encode())
        except OSError:
            raise self._gone() from None

    def _receive(self) -> dict[str, Any]:
        """Return what the supervisor says next. Raises `BreakrankError` if it is gone, or says what none says."""
        try:
            message = parse(self.socket.recv(supervisor.PACKET), supervisor.PACKET)
            check(message, {}, _FROM_SUPERVISOR)
        except (OSError, Unfit):
            # Nothing is what comes from one that is gone.
            raise self._gone() from None
        return message

    def _await(self, *names: str, limit_s: float | None = None) -> dict[str, Any]:
        """Return the supervisor's answer of this name. Raises `BreakrankError` if it stands still or takes too long."""
        until = time.monotonic() + (limit_s or ANSWER_S)
        while True:
            while not select.select([self.socket], [], [], _LOOK_S)[0]:
                if _is_stopped(self._process.pid) or time.monotonic() > until:
                    raise self._gone()
            message = self._receive()
            if any(name in message for name in names):
                return message
            self._queue.append(message)


def kill_all(find: Callable[[], Sequence[int]], within_s: float) -> None:
    """Kill the processes that `find` returns, and those that come meanwhile, until it returns none.

    Processes that do not end within so many seconds are left.
    """
    until = time.monotonic() + within_s
    while time.monotonic() < until and (left := find()):
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def leftovers() -> dict[int, str]:
    """Return the processes, with their names, that sessions left behind whose owner is dead.

    Only those that carry a session id of ours are among them, and none whose owner would not be seen from here.
    """
    left: dict[int, str] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            owner = process.environ().get(VARIABLE)
            if owner and not is_alive(owner):
                left[process.pid] = process.name()
    return left


def _carrying(session: str) -> list[int]:
    """Return the processes that carry the id of a session and run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(VARIABLE) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def sweep() -> int:
    """Kill what sessions left behind; return how many processes that were.

    It is for the case that the supervisor itself was killed.
    """
    left = leftovers()
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _is_stopped(pid: int) -> bool:
    """Return whether a process stands still, and will not answer."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return True
