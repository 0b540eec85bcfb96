"""The one kind of lock on top of which `threading`, `queue` and `concurrent.futures` are written, replaced by ours."""

from __future__ import annotations

import concurrent.futures.thread
import logging
import queue
import threading
from _thread import allocate_lock
from typing import Any, Callable, Optional, Protocol, Union

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.thread_scheduler import Member, Turns
from breakrank_agent.hooks import imports_framework


class ThreadWatch(Protocol):
    """The hook that knows the user's threads, as a lock sees it."""

    agent: Agent
    #: The schedule of this rank's threads, if there is one.
    turns: Optional[Turns]

    def sync(self, do: str, key: Union[str, Callable[[], str]]) -> None:
        """Record that this thread comes after another, or before."""

    def others(self) -> bool:
        """Return whether there are threads that are not under the schedule."""


_threads: Optional[ThreadWatch] = None


def replace_locks(threads: ThreadWatch) -> None:
    """Put our lock in the place of Python's, and anew where a module that we know has made one already."""
    global _threads
    _threads = threads
    module: Any = threading
    module.Lock = module._allocate_lock = Lock
    # RLock() then makes the one that is written in Python, on top of the other.
    module._CRLock = None
    pure: Any = queue
    pure.SimpleQueue = pure._PySimpleQueue
    pools: Any = concurrent.futures.thread
    pools._global_shutdown_lock = Lock()
    texts: Any = logging
    texts._lock = threading.RLock()
    for weak in texts._handlerList:
        handler = weak()
        if handler is not None and handler.lock is not None:
            handler.lock = threading.RLock()
    _watch_events()


def _watch_events() -> None:
    """See an event that is set, and one that is found to be set without waiting: neither takes the lock for it."""

    def setting(event: Any) -> None:
        if isinstance(event._cond._lock, Lock):
            event._cond._lock.gives()

    def read(event: Any, found: bool) -> None:
        if found and isinstance(event._cond._lock, Lock):
            event._cond._lock.seen()

    interpose(threading.Event, "set", setting)
    interpose(threading.Event, "is_set", receiver, read)


class Lock:
    """A lock as `_thread` makes it, on record; under a controlled schedule others move while a thread waits for it."""

    __slots__ = ("__weakref__", "_key", "_owner", "_real")

    def __new__(cls) -> Any:
        """Return one of Python's own to a framework that is being imported: in a warm rank it has been before us."""
        return allocate_lock() if imports_framework() else super().__new__(cls)

    def __init__(self) -> None:
        self._real = allocate_lock()
        self._owner: Any = None
        self._key = ""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire it, as a real lock would."""
        turns = _threads.turns if _threads is not None else None
        me = turns.me() if turns is not None else None
        if turns is None or me is None:
            got = self._real.acquire(blocking, timeout)
        else:
            got = self._take(turns, blocking, timeout)
        if got:
            self._owner = me if me is not None else threading.get_ident()
            self.seen()
        return got

    def _take(self, turns: Turns, blocking: bool, timeout: float) -> bool:
        if timeout != -1 and (not blocking or timeout < 0):
            return self._real.acquire(blocking, timeout)  # the real lock raises the error
        turns.point()
        limit = None if timeout == -1 else timeout
        while not self._real.acquire(False):
            if not blocking:
                return False
            if not turns.wait(self, limit):
                # The limit has come; or this thread imports something, and must wait for real.
                return self._real.acquire(limit is None)
        return True

    def release(self) -> None:
        """Release it, as a real lock would."""
        self.gives()
        self._owner = None
        self._real.release()

    def locked(self) -> bool:
        """Return whether somebody has it."""
        return self._real.locked()

    def seen(self) -> None:
        """Record that this thread comes after who released it last."""
        if _threads is not None:
            _threads.sync("acquire", self._name)

    def gives(self) -> None:
        """Record that whoever takes it later comes after this thread."""
        if _threads is not None:
            _threads.sync("release", self._name)

    def _name(self) -> str:
        if not self._key and _threads is not None:
            self._key = f"lock:{_threads.agent.accesses.number('lock')}"
        return self._key

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")

    def _at_fork_reinit(self) -> None:
        self._real = allocate_lock()
        self._owner = None

    # --- the schedule's calls, of a thing that threads wait for

    def over(self) -> bool:
        """Return whether nobody has it."""
        return not self._real.locked()

    def outside(self) -> bool:
        """Return whether a thread that is not under the schedule has it, or may be about to release it."""
        if isinstance(self._owner, Member) and not self._is_signal():
            return False
        return _threads is not None and _threads.others()

    def _is_signal(self) -> bool:
        """Return whether whoever has it waits for it: then it is one that somebody else is to release."""
        return isinstance(self._owner, Member) and self._owner.waits is self

    def block(self, limit: Optional[float]) -> None:
        """Wait for real until nobody has it."""
        if self._real.acquire(True, -1 if limit is None else limit):
            self._real.release()

    def words(self) -> str:
        """Say which lock it is and who has it."""
        if self._is_signal():
            return "a word from another thread"
        owner = self._owner.name if isinstance(self._owner, Member) else "another thread"
        return f"{self._name().replace(':', ' ')}, which {owner} holds"
