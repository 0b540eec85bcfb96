"""A session: one owner, one warden, one id that everything of ours carries."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from breakrank import warden
from breakrank.errors import BreakrankError
from breakrank.follower import Follower

#: The variable that every process of ours carries: who owns it.
VARIABLE = "BREAKRANK_SESSION"
#: No process whose namespaces are entered, and no kinds of them.
NO_WALLS = (0, 0)


class Session:
    """The owner's end of the warden. Raises `BreakrankError` when the warden is gone."""

    def __init__(self, controller_pid: int | None = None) -> None:
        self.id = f"{os.getpid()}-{_started(os.getpid())}-{_namespace()}-{secrets.token_hex(4)}"
        #: What every process of ours has in its environment.
        self.mark = {VARIABLE: self.id}
        self._queue: list[dict[str, Any]] = []
        self._owns = False
        #: Processes that outlive a run: the zygotes.
        self.kept: set[int] = set()
        #: Processes below the warden that are not its children, as a launcher's ranks.
        self._follower = Follower()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, warden.PACKET)
        owners = {os.getpid(), controller_pid or os.getpid()}
        command = [sys.executable, "-I", "-S", str(Path(warden.__file__)), str(theirs.fileno())]
        self._process = subprocess.Popen(
            [*command, *(str(pid) for pid in owners)],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**self.mark, "PATH": os.environ.get("PATH", "")},
        )
        theirs.close()
        self.socket = ours
        self._poll = select.epoll()
        for source in (self.socket, self._follower):
            self._poll.register(source, select.EPOLLIN)

    @property
    def warden_pid(self) -> int:
        """The warden's process number."""
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
        """Start a process below the warden and return its pid.

        `descriptors` become its 0, 1, 2, 3 …; `join` is a process whose mount namespace it enters, `walls` one with
        the kinds of its namespaces, as flags. Raises `BreakrankError` when it cannot be started.
        """
        message = {"do": "spawn", "id": 0, "argv": list(argv), "env": {**env, **self.mark}}
        message |= {"cwd": str(cwd), "join": join, "walls": list(walls)}
        data = json.dumps(message).encode()
        try:
            socket.send_fds(self.socket, [data], list(descriptors))
        except OSError as error:
            raise BreakrankError(f"cannot start {argv[0]}: {error.strerror or error}") from None
        answer = self._await("spawned", "failed")
        if "failed" in answer:
            raise BreakrankError(f"cannot start {argv[0]}: {answer['text']}")
        return int(answer["pid"])

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to a process of ours; return False if it has ended and was waited for."""
        if pid in self._follower:
            done = self._follower.signal(pid, number)
            if number == signal.SIGKILL and self._owns:
                self._send({"do": "thaw", "pid": pid})
            return done
        self._send({"do": "signal", "pid": pid, "signal": number})
        return bool(self._await("signalled")["done"])

    def own(self, folders: Sequence[str]) -> None:
        """Have the warden remove these control groups, the last one first, when we are gone; they need not be there."""
        self._owns = True
        self._send({"do": "own", "folders": list(folders)})

    def adopt(self, pid: int) -> None:
        """Have the warden report on a rank that a zygote has forked; only then may the rank begin."""
        self._send({"do": "adopt", "pid": pid})
        self._await("adopted")

    def follow(self, pid: int) -> None:
        """Tell of a process below the warden that somebody else has started and waits for. Raises `OSError`."""
        self._follower.follow(pid)

    def clear(self) -> int:
        """End everything below the warden but what is kept; return how many processes there were."""
        self._follower.forget()
        self._send({"do": "clear", "keep": sorted(self.kept)})
        return int(self._await("cleared")["cleared"])

    def last(self, argv: Sequence[str]) -> None:
        """Have the warden run a program when we are gone and all below it has ended; none takes that back."""
        self._send({"do": "last", "argv": list(argv), "env": {**os.environ}})
        self._await("noted")

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield what waitpid told the warden, and the kernel of others, since the last call, without waiting."""
        while select.select([self.socket], [], [], 0)[0]:
            self._queue.append(self._receive())
        queue, self._queue = self._queue, []
        yield from queue
        yield from self._follower.told()

    def close(self) -> None:
        """End everything below the warden, and the warden."""
        self.kept.clear()
        with contextlib.suppress(BreakrankError):
            self.clear()
        self._poll.close()
        self._follower.close()
        self.socket.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self.socket.send(json.dumps(message).encode())
        except OSError:
            raise BreakrankError("the warden process is gone; was it killed?") from None

    def _receive(self) -> dict[str, Any]:
        try:
            data = self.socket.recv(warden.PACKET)
        except OSError:
            data = b""
        if not data:
            raise BreakrankError("the warden process is gone; was it killed?")
        message: dict[str, Any] = json.loads(data)
        return message

    def _await(self, *names: str) -> dict[str, Any]:
        while True:
            message = self._receive()
            if any(name in message for name in names):
                return message
            self._queue.append(message)


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


def sweep() -> int:
    """Kill what sessions left behind; return how many processes that were.

    It is for the case that the warden itself was killed.
    """
    left = leftovers()
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def is_alive(session: str) -> bool:
    """Whether the owner of a session lives; yes, where it would not be seen from here."""
    pid, started, namespace = ([*session.split("-"), "", "", ""])[:3]
    return namespace != _namespace() or (pid.isdigit() and _started(int(pid)) == started)


def _namespace() -> str:
    """Return which processes are seen from here: the number of the namespace (pid_namespaces(7))."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot: with the pid, it is unique. Empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""
