"""Follows processes that others have started and wait for: the kernel tells, by a pidfd and /proc, what comes of them.

The exit code of such a process is in /proc/<pid>/stat for as long as nobody has waited for it (field 52, exit_code, see
proc(5)), and behind its pidfd afterwards (ioctl PIDFD_GET_INFO with PIDFD_INFO_EXIT, Linux 6.15 and newer).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: struct pidfd_info of its first size: mask, cgroupid, eleven numbers of processes and users, exit_code.
_INFO = struct.Struct("=QQ11Ii")
_PIDFD_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
_PIDFD_INFO_EXIT = 1 << 3

#: The seconds that a process may take to stand still, or to go on, after it was told to. A limit, not a trigger.
_SETTLES_S = 1.0


@dataclass
class _Watched:
    """One process: its pidfd, whether the kernel tells us its exit code, and whether it was last seen stopped."""

    descriptor: int
    told: bool
    stopped: bool = False


class ExitWatch:
    """The processes that are watched. Their changes are told as the supervisor tells of its own children's."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._queue: list[dict[str, Any]] = []
        self._poll = select.epoll()

    def fileno(self) -> int:
        """Return the descriptor that is readable when a process has ended."""
        return self._poll.fileno()

    def __contains__(self, pid: int) -> bool:
        return pid in self._watched

    def follow(self, pid: int) -> None:
        """Follow a process. Raises `OSError` if it is gone, or the kernel has no pidfds (before Linux 5.3)."""
        descriptor = os.pidfd_open(pid)
        self._watched[pid] = _Watched(descriptor, _tells_us(pid))
        self._poll.register(descriptor, select.EPOLLIN)

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal, and see what stops or goes on do so; return False if the process has ended."""
        one = self._watched[pid]
        try:
            signal.pidfd_send_signal(one.descriptor, number)
        except OSError:
            return False
        if number in (signal.SIGSTOP, signal.SIGCONT):
            until = time.monotonic() + _SETTLES_S
            while pid in self._watched and one.stopped != (number == signal.SIGSTOP) and time.monotonic() < until:
                self._look()
        return True

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield what has come of the processes since the last call: ended, stopped, continued."""
        self._look()
        queue, self._queue = self._queue, []
        # Of several that ended at once, those that may have been ended because of the others come last.
        yield from sorted(queue, key=lambda report: report["status"] == -signal.SIGTERM)

    def forget(self) -> None:
        """Follow nobody any more."""
        for pid in list(self._watched):
            self._drop(pid)
        self._queue.clear()

    def close(self) -> None:
        """Give everything back."""
        self.forget()
        self._poll.close()

    def _look(self) -> None:
        for pid, one in list(self._watched.items()):
            if select.select([one.descriptor], [], [], 0)[0]:
                self._queue.append({"child": pid, "what": "ended", "status": _status(pid, one), "by": "pidfd"})
                self._drop(pid)
                continue
            stopped = (_stat(pid) or ["?"])[0] == "T"
            if stopped != one.stopped:
                one.stopped = stopped
                what = "stopped" if stopped else "continued"
                number = signal.SIGSTOP if stopped else signal.SIGCONT
                self._queue.append({"child": pid, "what": what, "status": int(number), "by": "/proc"})

    def _drop(self, pid: int) -> None:
        one = self._watched.pop(pid)
        self._poll.unregister(one.descriptor)
        os.close(one.descriptor)


def _status(pid: int, one: _Watched) -> int | None:
    """Return the exit code of a process that has ended, or minus the signal; None if the kernel does not tell."""
    code = _waited_for(one.descriptor)
    if code is None:
        fields = _stat(pid)
        # As long as nobody has waited for it, the number is still its own; so it is while the kernel takes apart one
        # whose parent waits for none ("X"), as Ray's raylet does.
        code = int(fields[49]) if fields and fields[0] in "ZX" and one.told else _waited_for(one.descriptor)
    return None if code is None else os.waitstatus_to_exitcode(code)


def _waited_for(descriptor: int) -> int | None:
    """Return the wait status of a process that somebody has waited for, where the kernel keeps it."""
    with contextlib.suppress(OSError):
        asked = _INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13)
        mask, *_, code = _INFO.unpack(fcntl.ioctl(descriptor, _PIDFD_GET_INFO, asked))
        if mask & _PIDFD_INFO_EXIT:
            return int(code)
    return None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third, the state, on; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _tells_us(pid: int) -> bool:
    """Return whether the kernel tells us of a process what only a tracer may know; else it says 0 as exit code."""
    try:
        os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY))
    except OSError:
        return False
    return True
