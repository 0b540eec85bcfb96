"""Crash dump: the stacks that a rank writes when it dies of a signal, and those that are read before it does.

faulthandler writes the Python stacks of a dying rank into a FIFO of ours. Of each such FIFO the rank is the owner
(fcntl(2), F_SETOWN), and the signal that tells the owner of something to read is SIGSTOP (F_SETSIG): with its first
words the kernel stops the rank as a whole, with no code of ours in it. The pipe holds one packet (pipe(2), O_DIRECT):
the thread that died cannot go on in between. The stacks of the other threads are then read from outside, and the rank
goes on: it dies of the same signal as ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.host.gdb import Native, read_native
from breakrank.host.stacks import Frame, fold, spy

#: The limit for the kernel to stop every thread, and py-spy to read their stacks.
_STOP_S, _LIMIT_S = 2.0, 10.0
_PIPE_BYTES = 1 << 20
#: The most reads of a pipe in a row: the dump comes in packets.
_MOST_READS = 1000
_MOST_TEXT = 20_000
_OURS = f"{os.sep}breakrank_agent{os.sep}"
#: The paths of Python's own modules, and of installed packages.
_INSTALLED = re.compile(r"/lib(64)?/python\d[\d.]*/|/python\d+\.zip/")
_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-f]+) .*\(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


@dataclass(frozen=True)
class Thread:
    """One thread of a dying rank: its Python frames, innermost first, and what its native ones are."""

    ident: int
    name: str
    frames: tuple[Frame, ...]
    tid: int = 0
    died: bool = False
    native: tuple[str, ...] = ()

    @property
    def own(self) -> bool:
        """True if the stack has a frame of the user's code."""
        return any(not frame.file.startswith("<") and not _INSTALLED.search(frame.file) for frame in self.frames)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the user's own frames alone, outermost first, and what it waits for."""
        place = fold(self.frames[::-1]) if self.frames else None
        frames = [[f.file, f.line, f.function] for f in place.frames] if place is not None else []
        waits = place.wait.name if place is not None and place.wait is not None else ""
        return {"thread": self.name, "died": self.died, "frames": frames, "waits": waits, "native": list(self.native)}


class CrashDump:
    """The FIFO through which the crash dump of one rank comes; `path` names it. Raises `OSError`.

    All that is known of its end is written to `crash`.
    """

    def __init__(self, path: Path, crash: Path) -> None:
        os.mkfifo(path, 0o600)
        self.path = path
        self._crash = crash
        # Open for both, it never comes to an end of file while nobody has spoken, or somebody has.
        self.descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._pid = 0
        self._text = b""
        self._threads: list[Thread] = []
        self._native = Native()
        self._unread = ""

    def stops(self, pid: int) -> None:
        """Have the kernel stop the process `pid` as soon as it speaks here."""
        self._pid = pid
        fcntl.fcntl(self.descriptor, fcntl.F_SETOWN, pid)
        fcntl.fcntl(self.descriptor, fcntl.F_SETSIG, signal.SIGSTOP)
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)

    def hear(self, send: Callable[[int, int], object]) -> None:
        """Take what was said; at the first words, read the stacks, then let the process go on: `send(pid, signal)`."""
        if self._pid:
            pid, self._pid = self._pid, 0
            _await_stop(pid)
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_NONBLOCK)
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            self._look(pid)
            send(pid, signal.SIGCONT)
        self._take()

    @property
    def endless(self) -> bool:
        """True if the rank wrote more than is kept."""
        return len(self._text) >= _PIPE_BYTES

    @property
    def waits(self) -> bool:
        """True if the process has written a dump that is not read yet: the kernel has stopped it for that."""
        return bool(select.select([self.descriptor], [], [], 0)[0])

    def event(self) -> dict[str, Any] | None:
        """Return the values of the Conductor's event, None if the rank said nothing; keep the stacks in a file.

        A process that outlives its rank is stopped no more: the kernel would signal this reading to it, too.
        """
        if self._pid:
            self._pid = 0
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_NONBLOCK)
        self._take()
        if not self._text:
            return None
        text = self._text.decode(errors="replace")
        threads = self._known(parse_crash_dump(text))
        # On a full disk the event says it all the same.
        with contextlib.suppress(OSError):
            self._crash.write_text("\n".join([text, *map(_in_full, threads)]))
        seen = [t.to_json() for t in threads if t.died or t.own]
        unread = self._unread or self._native.unread
        return {"text": text[:_MOST_TEXT], "threads": seen, "address": self._native.address, "unread": unread}

    def close(self) -> None:
        """Remove the FIFO."""
        os.close(self.descriptor)
        self.path.unlink(missing_ok=True)

    def _take(self) -> None:
        """Read what is there; one that writes without end is read as much of as a pipe holds, and forgotten."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST_READS):
                self._text = (self._text + os.read(self.descriptor, _PIPE_BYTES))[:_PIPE_BYTES]

    def _look(self, pid: int) -> None:
        """Read the Python stacks, and the native ones where another thread may have had a hand in it."""
        try:
            self._threads = read_threads(pid)
        except BreakrankError as error:
            self._unread = str(error)
        # It takes seconds, in which peers wait: one thread alone did it by itself.
        own = [thread.tid for thread in self._threads if thread.own]
        if len(own) > 1:
            self._native = read_native(pid, own)

    def _known(self, said: list[Thread]) -> list[Thread]:
        """Return the threads as they were seen when the rank stood still, else as faulthandler names them."""
        died = {thread.ident for thread in said if thread.died}
        threads = self._threads or said
        return [
            replace(
                thread,
                died=thread.ident in died or bool(thread.tid and thread.tid == self._native.died),
                native=self._native.stacks.get(thread.tid, ()),
            )
            for thread in threads
        ]


def read_threads(pid: int) -> list[Thread]:
    """Return the threads of a stopped process. Raises `BreakrankError`."""
    command = [spy(), "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, stdin=subprocess.DEVNULL)
        threads = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise BreakrankError(f"py-spy could not read the stacks of process {pid}") from None
    return [
        Thread(
            int(thread["thread_id"]),
            thread.get("thread_name") or f"thread {thread['os_thread_id']}",
            _without_ours([Frame(f["name"], f["filename"], f["line"]) for f in thread["frames"]]),
            int(thread["os_thread_id"] or 0),
        )
        for thread in threads
    ]


def parse_crash_dump(text: str) -> list[Thread]:
    """Return the threads that faulthandler names, the one that died first if it is one of Python's."""
    threads: list[Thread] = []
    for line in text.splitlines():
        head, frame = _THREAD.match(line), _FRAME.match(line)
        if head:
            name = f"thread {int(head[2], 16):#x}"
            threads.append(Thread(int(head[2], 16), name, (), died=head[1] == "Current thread"))
        elif frame and threads:
            called = Frame(frame[3], frame[1], int(frame[2]))
            threads[-1] = replace(threads[-1], frames=_without_ours([*threads[-1].frames, called]))
    return threads


def _without_ours(frames: list[Frame]) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if _OURS not in frame.file)


def _await_stop(pid: int) -> None:
    """Wait until every thread of the process is stopped, or it is gone."""
    until = time.monotonic() + _STOP_S
    while time.monotonic() < until:
        try:
            stats = [path.read_bytes().rpartition(b")")[2] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        except OSError:
            stats = [b" R"]
        if all(stat.split()[0] in (b"T", b"t", b"Z", b"X") for stat in stats):
            return
        time.sleep(0.001)


def _in_full(thread: Thread) -> str:
    """Return all that is known of a thread, as lines."""
    head = f"\n{thread.name}{' (died)' if thread.died else ''}, most recent call first:"
    python = [f'  File "{f.file}", line {f.line} in {f.function}' for f in thread.frames]
    return "\n".join([head, *python, *(f"  native {call}" for call in thread.native)])
