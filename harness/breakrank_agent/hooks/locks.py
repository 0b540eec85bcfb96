"""File locks under a controlled schedule: a rank that must wait for one says so, instead of blocking in the kernel."""

from __future__ import annotations

import fcntl
import functools
import os
from typing import Any, Callable

from breakrank_agent.probe import Agent, Channel

WAITS_FOR = ""


def install(agent: Agent) -> None:
    """Replace `fcntl.flock` and `fcntl.lockf`, for ranks that move one at a time."""
    if not agent.controlled or agent.channel is None:
        return
    fcntl.flock = _scheduled(agent, agent.channel, fcntl.flock)
    fcntl.lockf = _scheduled(agent, agent.channel, fcntl.lockf)


def _scheduled(agent: Agent, channel: Channel, lock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(lock)
    def wrapper(file: Any, operation: int, *args: Any) -> Any:
        if agent.busy or not agent.here:
            return lock(file, operation, *args)
        key = _key(file)
        if operation & fcntl.LOCK_UN:
            result = lock(file, operation, *args)
            channel.tell({"unlocked": key})
            return result
        if operation & fcntl.LOCK_NB:
            return lock(file, operation, *args)
        turn = channel.ask({"move": ["lock", key]}).get("turn")
        while True:
            try:
                result = lock(file, operation | fcntl.LOCK_NB, *args)
            except BlockingIOError:
                turn = channel.ask({"blocked": key}).get("turn")
            else:
                agent.record("access", op="lock", mode="lock", key=key, turn=turn)
                return result

    return wrapper


def _key(file: Any) -> str:
    status = os.fstat(file if isinstance(file, int) else file.fileno())
    return f"{status.st_dev}:{status.st_ino}"
