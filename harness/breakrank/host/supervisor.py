"""The supervisor: the process below which every rank lives, and that leaves nothing behind when its owner is gone.

It is started as a script of its own (`python -I -S supervisor.py FD OWNER…`), with the standard library alone and one
thread, so that forking from it is safe and costs little. It is the sub-reaper of all that its ranks start
(prctl(2), PR_SET_CHILD_SUBREAPER), reports what waitpid says, and ends everything below it when the socket to its
owner closes or one of the owners' processes ends (pidfd_open(2)).

Messages are JSON, one per packet (SOCK_SEQPACKET). From the owner: `spawn` (id, argv, env, cwd, join: a process
whose mount namespace is entered, or 0; walls: one and the kinds of its namespaces that are entered, as flags of
setns(2); with the file descriptors that become 0, 1, 2, 3, …), `signal` (pid, signal),
`adopt` (pid), `own` (folders: control groups to remove at the end), `thaw` (pid: let what was killed in one of them
end), `clear` (keep: end everything below except these pids), `last` (name, argv, env: a program that is run when the
owner is gone and nothing is left below; none of that name if empty). To the owner: `spawned` (id, pid), `failed` (id,
text), `child` (pid, what: ended, stopped, continued; status), `signalled` (pid, done), `adopted` (pid), `cleared`
(count), `noted`.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PACKET = 1 << 20
#: The files that freeze a control group, in the two versions, and what they hold when it is not frozen.
_THAWED = {"freezer.state": "THAWED", "cgroup.freeze": "0"}


def main(argv: list[str]) -> None:
    """Serve the owner on the inherited socket until it is gone."""
    connection = socket.socket(fileno=int(argv[0]))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Supervisor(connection, libc, [int(pid) for pid in argv[1:]]).serve()


class Supervisor:
    """One socket to the owner, and the processes below."""

    def __init__(self, connection: socket.socket, libc: ctypes.CDLL, owners: list[int]) -> None:
        self._connection = connection
        self._libc = libc
        self._live: set[int] = set()
        self._groups = ControlGroups()
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ, "owner")
        self._owner_gone = False
        self._last: dict[str, dict[str, Any]] = {}
        for pid in owners:
            self._watch(pid)
        self._wake, wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._wake, selectors.EVENT_READ, "children")

    def _watch(self, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            # Gone already; or a kernel without pidfd (before 5.3), where the socket alone tells.
            self._owner_gone = self._owner_gone or not os.path.exists(f"/proc/{pid}")
            return
        self._selector.register(descriptor, selectors.EVENT_READ, "gone")

    def serve(self) -> None:
        """Answer until the owner is gone, then end everything below."""
        while not self._owner_gone:
            for key, _ in self._selector.select():
                if key.data == "owner":
                    self._owner_gone = self._owner_gone or not self._answer()
                elif key.data == "children":
                    self._reap()
                else:
                    self._owner_gone = True
        self._clear(set())
        self._groups.remove(self._selector.select)
        for program in self._last.values():
            if program["argv"]:
                self._run_last(program)

    def _say(self, **message: object) -> None:
        # An owner that has died in between is noticed by the loop.
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps(message).encode())

    def _answer(self) -> bool:
        descriptors = array.array("i")
        try:
            data, ancillary, _, _ = self._connection.recvmsg(PACKET, socket.CMSG_SPACE(16 * descriptors.itemsize))
        except OSError:
            return False
        if not data:
            return False
        for _, _, raw in ancillary:
            descriptors.frombytes(raw)
        try:
            self._do(json.loads(data), descriptors)
        except Exception:
            # An owner that says what it cannot say is none: all below is ended, as when it is gone.
            return False
        return True

    def _do(self, message: dict[str, Any], descriptors: array.array[int]) -> None:
        if message["do"] == "spawn":
            self._spawn(message, list(descriptors))
        elif message["do"] == "signal":
            self._signal(message["pid"], message["signal"])
        elif message["do"] == "adopt":
            # A rank that was forked by a zygote: its parent in the middle is gone, and ours it is now.
            self._live.add(message["pid"])
            self._say(adopted=message["pid"])
        elif message["do"] == "own":
            self._groups.own(message["folders"])
        elif message["do"] == "thaw":
            self._groups.thaw(message["pid"])
        elif message["do"] == "last":
            self._last[message["name"]] = message
            self._say(noted=True)
        elif message["do"] == "clear":
            self._say(cleared=self._clear(set(message["keep"])))
        else:
            raise ValueError(message["do"])

    def _run_last(self, program: dict[str, Any]) -> None:
        """Run a last program to its end: what it removes cannot be reached from here."""
        pid = os.fork()
        if pid == 0:
            try:
                os.chdir("/")
                os.execvpe(program["argv"][0], program["argv"], program["env"])
            finally:
                os._exit(127)
        os.waitpid(pid, 0)

    def _spawn(self, message: dict[str, Any], descriptors: list[int]) -> None:
        failure, failure_in = os.pipe2(os.O_CLOEXEC)
        holder, kinds = message["walls"]
        pid = self._fork_behind(holder, kinds, failure_in) if holder else os.fork()
        if pid == 0:
            self._become(message, descriptors, failure_in)
        if pid > 0:
            self._live.add(pid)
        os.close(failure_in)
        for descriptor in descriptors:
            os.close(descriptor)
        with os.fdopen(failure, "rb") as pipe:
            text = pipe.read().decode()
        if text:
            self._say(failed=message["id"], text=text)
        else:
            self._say(spawned=message["id"], pid=pid)

    def _fork_behind(self, holder: int, kinds: int, failure_in: int) -> int:
        """Fork behind walls; return the pid as it is called here, 0 in the child, -1 if the walls cannot be entered.

        Only what is forked after a namespace of processes was entered is in it, so a process in the middle enters, and
        leaves: its child then is ours, and learns that from the end of a pipe.
        """
        settled, settled_in = os.pipe2(os.O_CLOEXEC)
        told, told_in = os.pipe2(os.O_CLOEXEC)
        middle = os.fork()
        if middle == 0:
            try:
                self._enter(holder, kinds)
                pid = os.fork()
            except OSError as error:
                os.write(failure_in, f"{error}".encode())
                os._exit(1)
            if pid:
                os.write(told_in, f"{pid}".encode())
                os._exit(0)
            os.close(told_in)
            os.close(settled_in)
            os.read(settled, 1)
            return 0
        os.waitpid(middle, 0)
        for descriptor in (settled, settled_in, told_in):
            os.close(descriptor)
        with os.fdopen(told, "rb") as pipe:
            return int(pipe.read() or -1)

    def _become(self, message: dict[str, Any], descriptors: list[int], failure_in: int) -> None:
        """In the child: take the descriptors, a session of its own, and the program. Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # First out of the way of the numbers that they are to have, then into place.
            high = [self._duplicate(d, 64) for d in [failure_in, *descriptors]]
            for number, descriptor in enumerate(high[1:]):
                os.dup2(descriptor, number, inheritable=True)
            os.closerange(len(descriptors), 64)
            self._join(message["join"])
            os.chdir(message["cwd"])
            os.execvpe(message["argv"][0], message["argv"], message["env"])
        except BaseException as error:
            os.write(high[0] if "high" in locals() else failure_in, f"{error}".encode())
        finally:
            os._exit(127)

    def _join(self, holder: int) -> None:
        """Enter the mount namespace of another process, and its user namespace where that is not ours."""
        if not holder:
            return
        kinds = ("mnt",) if os.getuid() == 0 else ("user", "mnt")
        for descriptor in [os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]:
            if self._libc.setns(descriptor, 0) != 0:
                raise OSError(ctypes.get_errno(), "the private view of the folder cannot be entered")

    def _enter(self, holder: int, kinds: int) -> None:
        """Enter what walls a rank in; whoever is forked next is in all of it."""
        if self._libc.setns(os.pidfd_open(holder), kinds) != 0:
            raise OSError(ctypes.get_errno(), "the walls of the rank cannot be entered")

    @staticmethod
    def _duplicate(descriptor: int, least: int) -> int:
        import fcntl

        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)

    def _signal(self, pid: int, number: int) -> None:
        # A child that was not waited for keeps its number, so nobody else can be hit.
        done = pid in self._live
        stands = done and number == signal.SIGSTOP and (_is_stopped(pid) or self._groups.freezer(pid) is not None)
        if done:
            self._kill(pid, number)
        if done and number == signal.SIGSTOP and not stands:
            # A stop that is continued before it was waited for is never reported: wait for it here.
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self._reap()
        self._say(signalled=pid, done=done)

    def _kill(self, pid: int, number: int) -> None:
        os.kill(pid, number)
        if number == signal.SIGKILL:
            self._groups.thaw(pid)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        options = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG
        while True:
            try:
                seen = os.waitid(os.P_ALL, 0, options)
            except ChildProcessError:
                return
            if seen is None:
                return
            self._tell(seen)

    def _tell(self, seen: os.waitid_result) -> None:
        known = seen.si_pid in self._live
        if seen.si_code == os.CLD_EXITED:
            what, status = "ended", seen.si_status
        elif seen.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
            what, status = "ended", -seen.si_status
        else:
            what, status = ("continued" if seen.si_code == os.CLD_CONTINUED else "stopped"), seen.si_status
        if what == "ended":
            self._live.discard(seen.si_pid)
        if known:
            self._say(child=seen.si_pid, what=what, status=status)

    def _clear(self, keep: set[int]) -> int:
        """Kill everything below but `keep`, until nothing else is left; return how many processes there were."""
        killed: set[int] = set()
        while True:
            below = [pid for pid in descendants(os.getpid()) if pid not in keep]
            self._reap()
            if not below:
                return len(killed)
            for pid in below:
                killed.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    self._kill(pid, signal.SIGKILL)
            self._selector.select(0.005)


class ControlGroups:
    """The control groups of one owner, by their folders, which are removed at the end."""

    def __init__(self) -> None:
        self._folders: dict[str, None] = {}

    def own(self, folders: list[str]) -> None:
        """Take folders as ours."""
        self._folders.update(dict.fromkeys(folders))

    def thaw(self, pid: int) -> None:
        """Let a process that was killed while it was frozen end: the freezer of cgroups 1 holds back even SIGKILL."""
        frozen = self.freezer(pid)
        if frozen is not None:
            with contextlib.suppress(OSError), open(frozen, "w") as state:
                state.write(_THAWED[os.path.basename(frozen)])

    def freezer(self, pid: int) -> str | None:
        """Return the file by which a process is frozen in a group of ours; None if it is in no such group."""
        for path in (f"{folder}/{name}" for folder in self._folders for name in _THAWED):
            with contextlib.suppress(OSError):
                thawed = _lines(path) == [_THAWED[os.path.basename(path)]]
                if not thawed and str(pid) in _lines(f"{os.path.dirname(path)}/cgroup.procs"):
                    return path
        return None

    def remove(self, pause: Callable[[float], object]) -> None:
        """Remove our control groups; the kernel refuses for some milliseconds after the last process in them."""
        for folder in reversed(self._folders):
            for _ in range(400):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                if not os.path.isdir(folder):
                    break
                pause(0.005)


def _lines(path: str) -> list[str]:
    with open(path) as file:
        return file.read().split()


def _is_stopped(pid: int) -> bool:
    """Return whether a process stands still already: its next stop would never be reported."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"
    return False


def descendants(root: int) -> list[int]:
    """Return the pids of all processes below `root`, zombies included, from /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The command name may hold blanks and parentheses; the parent is the second field behind it.
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def is_running(pid: int) -> bool:
    """Return whether a process runs: it is there, and has not ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


def ancestors(pid: int) -> list[int]:
    """Return the processes above one, the nearest first, as far as they are seen from here."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        while pid > 1:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
            found.append(pid)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
