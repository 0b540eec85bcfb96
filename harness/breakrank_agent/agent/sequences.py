"""Sequences: the names under which the events of each thread are on record."""

from __future__ import annotations

import threading
from _thread import RLock
from threading import get_ident
from types import FrameType
from typing import Callable, Optional
from weakref import ref

from breakrank_agent.protocol.clock import MAIN

#: The prefix of the names of threads that nobody watches, while the user's own threads are watched.
STRANGE = "other-"

_active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]


class Sequences:
    """The names of a process's threads. `lock` is held while a thread gets its name."""

    __slots__ = ("_known", "_lock", "_on_native", "_unnamed", "acting", "backward", "main", "watched")

    def __init__(self, lock: RLock, watched: bool, on_native: list[Callable[[], None]]) -> None:
        self.main: Optional[int] = threading.main_thread().ident
        #: The threads that act for the main thread now, which waits for them.
        self.acting: set[int] = set()
        #: The caller of the backward pass that the main thread is in. A backend's own thread then acts on its behalf.
        self.backward: Optional[FrameType] = None
        #: True if accesses are recorded. Then the hook of threads names the user's threads.
        self.watched = watched
        self._on_native = on_native
        self._begin(lock)

    def _begin(self, lock: RLock) -> None:
        self._lock = lock
        #: By identity: the sequence of a thread, and the thread, if it is one of Python's. Identities come again.
        self._known: dict[int, tuple[str, Optional[ref[threading.Thread]]]] = {}
        self._unnamed = 0

    def begin_anew(self, lock: RLock) -> None:
        """Go on in a watched child, of which this thread is the main thread, and the only one."""
        self.main, self.watched = get_ident(), True
        self._begin(lock)

    def name(self, name: str) -> None:
        """Give this thread's sequence its name."""
        ident = get_ident()
        thread = pythons(ident)
        self._known[ident] = name, None if thread is None else ref(thread)

    def current(self) -> str:
        """Return the name of this thread's sequence."""
        ident = get_ident()
        if ident == self.main:
            return MAIN
        known = self._known.get(ident)
        if known is not None and known[1] is not None and known[1]() is _active.get(ident):
            return known[0]
        with self._lock:
            return self.find()

    def find(self) -> str:
        """Return the name of this thread's sequence, where the lock is held.

        While the main thread is in a backward pass it waits, and a device's collectives come from the autograd engine's
        thread, which is none of Python's. DDP starts its buckets in one order, so that these are the main thread's
        points, counted with its own.
        """
        ident = get_ident()
        if ident == self.main or ident in self.acting:
            return MAIN
        thread = pythons(ident)
        if self.backward is not None and thread is None:
            return MAIN
        name, known = self._known.get(ident, ("", None))
        if not name or (known() if known is not None else None) is not thread or (known is None) != (thread is None):
            self._unnamed += 1
            # The user's threads have their names from their hook, if they are watched; these are others then.
            name = f"{STRANGE if self.watched else 'thread-'}{self._unnamed}"
            self._known[ident] = name, None if thread is None else ref(thread)
        return name

    def strange(self, sequence: str) -> bool:
        """Return whether a thread is one that nobody watches: its waits are not known, so neither is its order."""
        if not sequence.startswith(STRANGE):
            return False
        if pythons(get_ident()) is None:
            for follow in self._on_native:
                follow()
        return True


def pythons(ident: int) -> Optional[threading.Thread]:
    """Return a thread that Python started. A backend's thread is unknown to Python, or known as a stand-in."""
    thread = _active.get(ident)
    return None if isinstance(thread, threading._DummyThread) else thread
