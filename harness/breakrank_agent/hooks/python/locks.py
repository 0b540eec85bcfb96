"""Locks between processes: of files, and of `multiprocessing`, from which its conditions, events and barriers are made.

They are on record where accesses are; under a controlled schedule a rank that must wait for one says so, instead of
blocking in the kernel. The queues and connections of `multiprocessing` order who has put or sent something before who
gets it.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import os
import stat
from typing import Any, Callable

from breakrank_agent.agent.access_log import shared_at
from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.hooks import after_import

WAITS_FOR = ""
IN_CHILDREN = True


def install(agent: Agent) -> None:
    """Replace `fcntl.flock` and `fcntl.lockf`, and watch `multiprocessing` once it is imported."""
    if not agent.watches:
        return
    fcntl.flock = _file_lock(agent, fcntl.flock)
    fcntl.lockf = _file_lock(agent, fcntl.lockf)
    after_import("multiprocessing.synchronize", functools.partial(_watch_semaphores, agent))
    after_import("multiprocessing.queues", functools.partial(_watch_queues, agent))
    after_import("multiprocessing.connection", functools.partial(_watch_connections, agent))


def _file_lock(agent: Agent, lock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a lock that is tried in turns. By hand, since it may be called several times, with another operation."""

    @functools.wraps(lock)
    def wrapper(file: Any, operation: int, *args: Any) -> Any:
        if agent.busy or not agent.sees:
            return lock(file, operation, *args)
        key = _file_key(file)
        if operation & fcntl.LOCK_UN:
            return _release(agent, key, lambda: lock(file, operation, *args))
        return _acquire(agent, key, operation & fcntl.LOCK_NB == 0, lambda more: lock(file, operation | more, *args))

    return wrapper


def _release(agent: Agent, key: str, release: Callable[[], Any]) -> Any:
    """Release a lock, and let those that wait for it in the schedule try again."""
    agent.accesses.sync("release", key)
    result = release()
    if agent.turns is not None:
        agent.turns.tell({"unlocked": key})
    return result


def _acquire(agent: Agent, key: str, waits: bool, acquire: Callable[[int], Any]) -> Any:
    """Acquire a lock, in a turn of its own; `acquire` is given LOCK_NB, or 0, and raises if somebody else has it.

    If nobody under the schedule can release it, and a child of some rank may, it is waited for as ever.
    """
    turns = agent.turns if waits else None
    if turns is None or turns.me() is None:
        result = acquire(0)
        agent.accesses.sync("acquire", key)
        return result
    turns.point()
    turn = turns.ask({"move": ["lock", key]}).get("turn")
    while True:
        try:
            result = acquire(fcntl.LOCK_NB)
        except BlockingIOError:
            answer = turns.ask({"blocked": key}, waits=True)
            turn = answer.get("turn")
            if answer.get("outside"):
                with turns.standing_aside():
                    result = acquire(0)
                break
        else:
            break
    agent.accesses.sync("acquire", key, turn=turn)
    return result


def _file_key(file: Any) -> str:
    status = os.fstat(file if isinstance(file, int) else file.fileno())
    return f"shared:file:{status.st_dev}:{status.st_ino}"


def _watch_semaphores(agent: Agent) -> None:
    """Watch what all locks of `multiprocessing` are made of."""
    from multiprocessing import synchronize

    kind: Any = synchronize.SemLock

    def made(self: Any, _: Any) -> None:
        key = _semaphore_key(self._semlock)
        take, give = self._semlock.acquire, self._semlock.release

        def try_to(more: int) -> bool:
            if more and not take(False):
                raise BlockingIOError
            return bool(more or take())

        def acquire(block: bool = True, timeout: Any = None) -> bool:
            if agent.busy or not agent.sees:
                return bool(take(block, timeout))
            if block and timeout is None:
                return bool(_acquire(agent, key, True, try_to))
            got = bool(take(block, timeout))
            if got:
                agent.accesses.sync("acquire", key)
            return got

        def release() -> None:
            if agent.busy or not agent.sees:
                give()
            else:
                _release(agent, key, give)

        self.acquire, self.release = acquire, release

    interpose(kind, "_make_methods", receiver, made)
    kind.__enter__ = lambda self: self.acquire()
    kind.__exit__ = lambda self, *_: self.release()
    _renew(kind, synchronize.Condition)


def _semaphore_key(semaphore: Any) -> str:
    """Return what is the same in every process that has it: the file that it lies in. A forked one has no name."""
    place = shared_at(semaphore.handle)
    return f"shared:semaphore:{semaphore.name if place is None else place[0]}"


def _renew(*kinds: type) -> None:
    """Let what was made before the rank became one be watched, too: locks come with the call of a rank's function.

    Conditions have the methods of their lock, and so come after it.
    """
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]
    for kind in kinds:
        for thing in found:
            if isinstance(thing, kind):
                thing._make_methods()  # type: ignore[attr-defined]


def _watch_queues(agent: Agent) -> None:
    """Watch the two ends of a queue: who puts something comes before who gets anything after."""
    from multiprocessing import queues

    for kind in (queues.Queue, queues.SimpleQueue):
        _watch_queue(agent, kind)


def _watch_queue(agent: Agent, kind: Any) -> None:
    def putting(queue: Any, *_: Any, **__: Any) -> None:
        if agent.sees and not agent.busy:
            agent.accesses.sync("release", _queue_key(queue))

    def got(queue: Any, _: Any) -> None:
        if agent.sees and not agent.busy:
            agent.accesses.sync("acquire", _queue_key(queue))

    interpose(kind, "put", putting)
    interpose(kind, "get", receiver, got)


def _watch_connections(agent: Agent) -> None:
    """Watch the ends of pipes and sockets: who sends comes before who receives after."""
    from multiprocessing import connection

    for kind in {connection.Connection, connection._ConnectionBase}:
        for name in ("send", "send_bytes", "recv", "recv_bytes", "recv_bytes_into"):
            if name in vars(kind):
                _watch_exchange(agent, kind, name)


def _watch_exchange(agent: Agent, kind: Any, name: str) -> None:
    sends = name.startswith("send")

    def begin(connection: Any, *_: Any, **__: Any) -> str:
        key = "" if agent.busy or not agent.sees else _connection_key(connection)
        if key and sends:
            agent.accesses.sync("release", key)
        return key

    def done(key: str, _: Any) -> None:
        if key and not sends:
            agent.accesses.sync("acquire", key)

    interpose(kind, name, begin, done)


def _connection_key(connection: Any) -> str:
    """Return what both ends of a connection have in common; empty if it is closed.

    A pipe has one inode. The two ends of a socket have one each, and nobody says which belong together: all sockets
    are taken for one, which may hide a race and never invents one.
    """
    try:
        status = os.fstat(connection.fileno())
    except (OSError, ValueError):
        return ""
    return f"shared:pipe:{status.st_dev}:{status.st_ino}" if stat.S_ISFIFO(status.st_mode) else "shared:socket"


def _queue_key(queue: Any) -> str:
    return f"{_semaphore_key(queue._rlock._semlock)}:queue"
