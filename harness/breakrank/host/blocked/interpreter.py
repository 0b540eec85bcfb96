"""Recognise a thread that wants Python's global lock (the GIL): it asks for it again every 5 ms.

The lock lies in the interpreter's own static memory, where no lock of a program does. Its holder is another thread
of the process. The main thread is never taken to wait for it: one look after the other sees several threads that
hand it on, and only the main thread's own wait is compared from look to look.
"""

from __future__ import annotations

import os
from pathlib import Path

from breakrank.host.blocked.threads import RELATIVE, State, Thread, in_futex, joined, read_threads

#: Beginnings of the names of the files that the interpreter is mapped from.
_FILES = ("python", "libpython")
#: The looks that fail or meet a joined thread asleep, and those that may meet it awake: it waits for a core as well.
_LOOKS = 20
_MOST_LOOKS = 2_000


def state(thread: Thread, call: str) -> State | None:
    """Return that a thread asks for the lock in vain, or None if it does not ask."""
    # Python waits up to a point in time; who waits for a relative time needs no look at the memory.
    asks = not thread.main and in_futex(thread) and thread.arguments[3] != 0 and thread.arguments[1] != RELATIVE
    return State.POLLS if asks and _is_interpreters(thread.tid, thread.arguments[0]) else None


def joins_in_vain(pid: int) -> bool:
    """Return whether the main thread of a process joins a thread that wants the lock, which it holds itself.

    A destructor in C++ that joins a thread of its library, and was called from Python, keeps the lock meanwhile. The
    other thread may be met while it is about to ask again, so that one look that does not show it proves nothing.
    """
    looks = 0
    for _ in range(_MOST_LOOKS):
        try:
            threads = read_threads(pid)
            awaited = joined(next(threads))
            # The others, a hundred of them beside a framework, are read if the main one joins any.
            met = next((thread for thread in threads if thread.tid == awaited), None) if awaited is not None else None
            if met is None:
                return False
            if state(met, "") is State.POLLS:
                return True
            looks += met.state == "S"
        except (OSError, ValueError):
            # A thread that ended meanwhile spoils one look; a process that is gone, or not ours to read, all of them.
            looks += 1
        if looks >= _LOOKS:
            return False
        os.sched_yield()
    return False


def _is_interpreters(tid: int, address: int) -> bool:
    """Return whether an address is in memory to which the interpreter's file was mapped, or in zeroed pages behind."""
    file, end = "", 0
    # The kernel lists them by address: a process with frameworks has thousands, and those of the program come first.
    with open(f"/proc/{tid}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            span, _, _, _, _, *name = line.split(maxsplit=5)
            first, last = (int(bound, 16) for bound in span.split("-"))
            if name or first != end:
                file = name[0].rstrip() if name else ""
            if first <= address < last:
                return Path(file).name.startswith(_FILES)
            end = last
    return False
