"""The threads of a process as /proc shows them, and the waits that only another thread of it can end."""

from __future__ import annotations

import contextlib
import enum
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from breakrank_agent.kernel.seccomp import call_named

_X86 = platform.machine() == "x86_64"
#: Numbers of system calls: futex(2), epoll_wait(2) and its kind, poll(2) and its kind, the sleeps.
FUTEX = 202 if _X86 else 98
EPOLL = (232, 281, 441) if _X86 else (22, 441)
POLL = (7, 271) if _X86 else (73,)
#: restart_syscall(2): a wait with a time-out that a stop or a tracer has interrupted goes on in it, with the arguments
#: that it had. The function in which the thread sleeps tells the original call.
_RESTARTED = 219 if _X86 else 128
_SLEEPS_IN = {"futex": FUTEX, "poll": POLL[0], "do_poll": POLL[0], "do_sys_poll": POLL[0]}
#: The value that means no time-out, in calls that count it in milliseconds.
_FOREVER = 0xFFFFFFFF
#: FUTEX_WAIT with FUTEX_PRIVATE_FLAG, whose time-out is relative: how Abseil waits, which gRPC is built on. Python, and
#: the condition variables of C and C++, wait by another operation, up to a point in time.
RELATIVE = 128
#: Of a `status` file: the name, the state, and how often the thread has given way, by itself and not.
_STATUS = re.compile(r"Name:\t(.*)\n(?s:.*?)\nState:\t(.)(?s:.*)\nvoluntary_ctxt_switches:\t(\d+)\nnon\w+:\t(\d+)")
#: Bit of a futex operation that says that no other process can wake the thread (FUTEX_PRIVATE_FLAG).
_PRIVATE = 128


class State(enum.Enum):
    """The state of a thread: it gets on with something, it waits for good, or it polls and finds nothing.

    One that is idle has nothing to do now; it wakes for messages, and for timers of its own that bring nothing on.
    """

    MOVES = "moves"
    WAITS = "waits"
    POLLS = "polls"
    IDLE = "idle"


@dataclass(frozen=True)
class Thread:
    """One look at one thread. `call` and `arguments` are its system call's; `call` is -1 where it is in none."""

    tid: int
    main: bool
    name: str
    state: str
    call: int
    arguments: tuple[int, ...]
    switches: int


def read_threads(pid: int) -> Iterator[Thread]:
    """Yield the threads of a process, the main one first: it mostly moves. Raises `OSError` or `ValueError`."""
    numbers = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    for tid in sorted(numbers, key=lambda number: number != pid):
        folder = f"/proc/{pid}/task/{tid}"
        found = _STATUS.match(_text(f"{folder}/status"))
        if found is None:
            raise ValueError(f"{folder}/status is not written as proc(5) says")
        name, state, *switches = found.groups()
        # Readable for our own descendants, as tracing them would be; a kernel that refuses gives no proof.
        words = _text(f"{folder}/syscall").split() if state == "S" else ["running"]
        call = int(words[0]) if words[0].lstrip("-").isdigit() else -1
        call = _restarted(folder) if call == _RESTARTED else call
        arguments = tuple(int(word, 16) for word in words[1:7]) if call >= 0 else ()
        yield Thread(tid, tid == pid, name, state, call, arguments, sum(map(int, switches)))


def _restarted(folder: str) -> int:
    """Return the call that a thread has gone on with after an interruption; -1 where the kernel does not say."""
    place = _text(f"{folder}/wchan")
    return next((call for start, call in _SLEEPS_IN.items() if place.startswith(start)), -1)


@dataclass(frozen=True)
class Work:
    """The work of a thread so far: how long it has computed, and how many bytes it has read and written."""

    computed_ns: int
    moved: int


def read_work(tid: int) -> Work | None:
    """Return what a thread has done so far; None where the kernel does not say."""
    folder = f"/proc/{tid}/task/{tid}"
    try:
        computed = int(_text(f"{folder}/schedstat").split()[0])
        moved = fields(f"{folder}/io")
        return Work(computed, int(moved["rchar"]) + int(moved["wchar"]))
    except (OSError, KeyError, ValueError, IndexError):
        return None


def read_computed(pid: int) -> float | None:
    """Return how many seconds all threads of a process have computed so far; None if the process is gone."""
    try:
        # The clock of a process, as clock_getcpuclockid(3) names it; C alone has that function.
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return None


def has_limit(thread: Thread) -> bool:
    """Return whether a thread that waits does so with a time-out."""
    if thread.call in POLL:
        return thread.arguments[2] & _FOREVER != _FOREVER
    return thread.call == FUTEX and thread.arguments[3] != 0


def call_name(thread: Thread) -> str:
    """Return the name of the system call that a thread is in, or its number; empty if it is in none."""
    if thread.call < 0:
        return ""
    names = {FUTEX: "futex", **dict.fromkeys(EPOLL, "epoll_wait"), **dict.fromkeys(POLL, "poll")}
    return names.get(thread.call) or call_named(thread.call) or f"system call {thread.call}"


def is_held(thread: Thread) -> bool:
    """Return whether a thread waits, as the kernel says, for the one who is told of its system call (seccomp)."""
    if thread.state != "S" or not call_named(thread.call):
        return False
    return _text(f"/proc/{thread.tid}/task/{thread.tid}/wchan").startswith("seccomp_do_user_notif")


def switches_at_rest(pids: Iterable[int]) -> dict[int, int] | None:
    """Return how often each process's main thread has given way, if it waits for good; None where a thread runs.

    A main thread that waits with a time-out is left out, and so is a process that is gone.
    """
    found = {}
    for pid in pids:
        # A thread may end meanwhile.
        with contextlib.suppress(OSError, ValueError):
            for thread in read_threads(pid):
                if thread.state in "RD":
                    return None
                if thread.main and not has_limit(thread):
                    found[pid] = thread.switches
    return found


def stands(pid: int) -> bool:
    """Return whether a process was told to stand still, which all of its threads do then; one that is gone does not."""
    with contextlib.suppress(OSError, KeyError):
        # In a tracer's stop ("t") it goes on when the tracer, ours or anybody's, lets it.
        return fields(f"/proc/{pid}/task/{pid}/status")["State"][0] == "T"
    return False


def sleeps(pid: int) -> bool:
    """Return whether the main thread of a process sleeps in the kernel now."""
    try:
        return next(read_threads(pid)).state == "S"
    except (OSError, KeyError, ValueError, StopIteration):
        return False


def pending(pid: int, number: int) -> str:
    """Return how a process will treat a signal that was sent to it and that it has not taken, empty if there is none.

    Raises `OSError` or `KeyError` if the process is gone.
    """
    bit, status = 1 << (number - 1), fields(f"/proc/{pid}/status")
    if not int(status["ShdPnd"], 16) & bit:
        return ""
    caught, ignored = (int(status[name], 16) & bit for name in ("SigCgt", "SigIgn"))
    return "caught" if caught else "ignored" if ignored else "not caught"


def fields(path: str) -> dict[str, str]:
    """Return the fields of a `status` file, or of one that is written alike."""
    pairs = (line.partition(":") for line in _text(path).split("\n"))
    return {name: value.strip() for name, _, value in pairs}


def read_numbers(folder: str) -> list[int]:
    """Return what a process or a thread is called, by its folder in /proc: here first, in its own namespace last.

    A kernel may say nothing of it. Raises `OSError`.
    """
    return [int(number) for number in fields(f"{folder}/status").get("NSpid", "").split()]


def _text(path: str) -> str:
    """Return what the kernel writes into a file; a thread may have any bytes for a name."""
    # Unbuffered: of a rank with a framework a hundred threads are read, again and again.
    with open(path, "rb", buffering=0) as file:
        return file.read().decode(errors="replace")


def waits_for_a_thread(thread: Thread) -> bool:
    """Return whether a thread waits, without a time-out, for another thread of its process, or for the end of one."""
    return (in_futex(thread) and thread.arguments[3] == 0) or joined(thread) is not None


def joined(thread: Thread) -> int | None:
    """Return which thread this one waits for in pthread_join(3), where the kernel clears a number at its end."""
    if thread.state != "S" or thread.call != FUTEX or len(thread.arguments) < 4 or thread.arguments[3] != 0:
        return None
    return _numbered(thread.tid, thread.arguments[2]) if thread.arguments[2] > 0 else None


def _numbered(pid: int, number: int) -> int | None:
    """Return the thread that a process knows by this number, if it has it: behind walls, it is another one here."""
    tasks = f"/proc/{pid}/task"
    if len(read_numbers(f"/proc/{pid}")) < 2:
        return number if Path(f"{tasks}/{number}").exists() else None
    return next((int(tid) for tid in os.listdir(tasks) if read_numbers(f"{tasks}/{tid}")[-1] == number), None)


def in_futex(thread: Thread) -> bool:
    """Return whether a thread waits for another thread of its own process, with or without a time-out."""
    return (
        thread.state == "S"
        and thread.call == FUTEX
        and len(thread.arguments) > 3
        and bool(thread.arguments[1] & _PRIVATE)
    )
