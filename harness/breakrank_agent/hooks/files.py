"""Writing to files of the working folder, seen by Python's audit hook before it happens."""

from __future__ import annotations

import os
import sys
from typing import Any

from breakrank_agent.probe import Agent

WAITS_FOR = ""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events that change a path, with the position of that path among their arguments.
_CHANGES = {"os.rename": 1, "os.remove": 0, "os.truncate": 0, "os.mkdir": 0, "os.rmdir": 0}


def install(agent: Agent) -> None:
    """Turn each file of the working folder that is opened for writing, renamed or removed into a `write` point.

    An audit hook cannot be taken off again: it lives as long as the rank, and costs a comparison for other events.
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(args[2], int) and args[2] & _WRITES:
                _reach(agent, args[0], "open")
        elif event in _CHANGES:
            _reach(agent, args[_CHANGES[event]], event[3:])

    sys.addaudithook(hook)


def _reach(agent: Agent, path: Any, how: str) -> None:
    if agent.busy or not isinstance(path, (str, bytes, os.PathLike)):
        return
    relative = agent.relative(path)
    # What Python caches of imports differs between a first and a second run, and is not the program's doing.
    if not relative.startswith(os.sep) and "__pycache__" not in relative:
        agent.reach("write", path=relative, how=how)
