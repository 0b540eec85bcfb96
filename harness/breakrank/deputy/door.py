"""The door: the abstract socket at which agents call, as they would on the machine that runs pytest."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

from breakrank.runners.join_socket import Caller, Home


class Door:
    """Tells the Conductor who has called; each waits until it is taken or refused."""

    def __init__(self, address: str, secret: str, say: Callable[..., None]) -> None:
        self._home = Home(address, secret)
        self._say = say
        self._waiting: dict[str, Caller] = {}
        self._count = self._unranked = 0
        #: The number of reasons told so far why callers were not taken in.
        self._refused = 0

    def open(self) -> None:
        """Listen. Raises `OSError`."""
        self._home.open()

    def sources(self) -> Iterator[Any]:
        """Yield what is readable when somebody calls."""
        yield from self._home.sources()

    @property
    def busy(self) -> bool:
        """True if somebody has called and waits."""
        return bool(self._waiting)

    def look(self) -> None:
        """Tell who has said who it is since the last time."""
        for caller in self._home.callers():
            self._count += 1
            key = f"door-{self._count}"
            self._waiting[key] = caller
            self._say(caller=key, pid=caller.pid, hello=caller.hello)
        for caller in self._home.unranked[self._unranked :]:
            self._say(caller="", pid=caller.pid, hello=caller.hello)
        self._unranked = len(self._home.unranked)
        for why in self._home.refused[self._refused :]:
            self._say(caller="", pid=0, refused=why)
        self._refused = len(self._home.refused)

    def take(self, key: str) -> tuple[int, socket.socket]:
        """Return the process and the line of a caller. Raises `OSError` if it is not there."""
        caller = self._waiting.pop(key, None)
        if caller is None:
            raise ProcessLookupError(f"nobody has called as {key}")
        return caller.pid, caller.line

    def refuse(self, key: str) -> None:
        """Hang up on a caller."""
        caller = self._waiting.pop(key, None)
        if caller is not None:
            caller.line.close()

    def close(self) -> None:
        """Listen no more, and hang up on all who wait."""
        for key in list(self._waiting):
            self.refuse(key)
        with contextlib.suppress(OSError):
            self._home.close()
