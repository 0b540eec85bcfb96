"""Home: the abstract socket (unix(7)) that the ranks of any launcher call, and that every user of the machine can see.

A caller is known from the kernel first (this user, or root), then by the secret, which has a constant length, and only
then is what it says looked at. Callers are bounded in number, in what they say, and in how long they take over it.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from breakrank_agent.protocol.checked import Unfit, check, is_text, maybe, parse, row, whole
from breakrank_agent.protocol.entry import SECRET_BYTES

#: The most callers that may be about to name themselves, their most bytes, and their most seconds.
MOST_CALLERS = 256
HELLO_BYTES = 4096
SAYS_WITHIN_S = 10.0
#: The most ranks of a job, and the most attempts.
MOST_WORLD, MOST_ATTEMPTS = 1 << 16, 1000
#: The most reasons that are kept for refused callers.
_MOST_REASONS = 8
#: The most processes that are kept which are no ranks.
_MOST_UNRANKED = 64


class AnyCaller(Protocol):
    """A process that has called, here or at the door of another node: its pid, and what it said."""

    hello: dict[str, Any]

    @property
    def pid(self) -> Any:
        """The process."""

    def hang_up(self) -> None:
        """Leave it to itself."""


@dataclass
class Caller:
    """A process that has called: its line, its pid as the kernel says, and what it said."""

    line: socket.socket
    pid: int
    since: float
    heard: bytes = b""
    hello: dict[str, Any] = field(default_factory=dict)

    def hang_up(self) -> None:
        """Leave it to itself."""
        self.line.close()


class Home:
    """The socket that is called at `address`, by those who know the `secret`: fresh ones, if none are given."""

    def __init__(self, address: str = "", secret: str = "") -> None:
        self.address = address or f"breakrank-{secrets.token_hex(8)}"
        self.secret = secret or secrets.token_hex(SECRET_BYTES // 2)
        #: Why callers that know the secret were not taken in.
        self.refused: list[str] = []
        #: Processes that said that they train, or join a group, and that are no ranks of ours: the first ones.
        self.unranked: list[Caller] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._callers: list[Caller] = []

    def open(self) -> None:
        """Listen. Raises `OSError`."""
        self._listener.bind("\0" + self.address)
        self._listener.listen(128)
        self._listener.setblocking(False)

    def sources(self) -> list[socket.socket]:
        """Return what is readable when somebody calls, or says more."""
        return [self._listener, *(caller.line for caller in self._callers)]

    def callers(self) -> list[Caller]:
        """Return the ranks that have said who they are since the last call."""
        self._accept()
        said = [caller for caller in list(self._callers) if self._has_said(caller)]
        for caller in (caller for caller in said if "did" in caller.hello):
            # One of a group of its own waits until we hang up, which `close` does at the latest.
            if len(self.unranked) < _MOST_UNRANKED:
                self.unranked.append(caller)
            if caller.hello["place"] is None or caller not in self.unranked:
                caller.line.close()
        return [caller for caller in said if "did" not in caller.hello]

    def write_unranked(self, write: Callable[..., None], attempt: int, command: int = 0) -> None:
        """Write an event for each process that trained, or joined a group, and was no rank; `command` is a pid."""
        for caller in self.unranked:
            rank, world = caller.hello["place"] or (None, None)
            facts = {"did": caller.hello["did"][:100], "below": caller.hello["below"], "rank": rank, "world": world}
            write("unranked", attempt=attempt, pid=caller.pid, own=caller.pid == command, **facts)

    def refuse(self, caller: AnyCaller, why: str) -> None:
        """Hang up on a caller that knows the secret, here or elsewhere, and keep the reason."""
        if len(self.refused) < _MOST_REASONS and why not in self.refused:
            self.refused.append(why)
        caller.hang_up()

    def close(self) -> None:
        """Listen no more, and hang up on who has not said who it is."""
        for caller in (*self._callers, *self.unranked):
            caller.line.close()
        self._callers.clear()
        self._listener.close()

    def _accept(self) -> None:
        for line in self._new_lines():
            line.setblocking(False)
            pid, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user in (0, os.geteuid()) and pid > 0:
                self._callers.append(Caller(line, pid, time.monotonic()))
            else:
                line.close()

    def _new_lines(self) -> Iterator[socket.socket]:
        """Yield who has connected, as many as there is room for; the others wait in the kernel."""
        for _ in range(MOST_CALLERS - len(self._callers)):
            try:
                line, _ = self._listener.accept()
            except OSError:
                # Nobody is left; or we have no descriptor for one: it is asked again.
                return
            yield line

    def _has_said(self, caller: Caller) -> bool:
        """Return whether a caller has said who it is; one that cannot be a rank is hung up on."""
        try:
            self._listen_to(caller)
            if len(caller.heard) < SECRET_BYTES or not caller.heard.endswith(b"\n"):
                if time.monotonic() - caller.since > SAYS_WITHIN_S:
                    raise ConnectionError
                return False
            self._callers.remove(caller)
            caller.hello = parse_hello(caller.heard[SECRET_BYTES:])
        except Unfit as error:
            self.refuse(caller, f"process {caller.pid} was not taken in: {error}")
            return False
        except OSError:
            self._callers.remove(caller)
            caller.line.close()
            return False
        return True

    def _listen_to(self, caller: Caller) -> None:
        """Take what a caller says. Raises `OSError` for who hangs up, says too much, or does not know the secret."""
        try:
            data = caller.line.recv(SECRET_BYTES + HELLO_BYTES - len(caller.heard))
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError
        caller.heard += data
        known = caller.heard[:SECRET_BYTES]
        if len(known) == SECRET_BYTES and not hmac.compare_digest(known, self.secret.encode()):
            raise ConnectionError
        if len(caller.heard) >= SECRET_BYTES + HELLO_BYTES:
            raise ConnectionError


def parse_hello(line: bytes) -> dict[str, Any]:
    """Return who a caller says that it is: rank, world, attempt, store. Raises `Unfit`.

    One that is no rank says what it `did`, the rank of ours that it is `below`, and its `place` (rank and world size)
    if it joined a group of its own.
    """
    hello = parse(line, HELLO_BYTES)
    if "did" in hello:
        place = row(whole(0, MOST_WORLD), whole(1, MOST_WORLD))
        check(hello, {"did": is_text, "below": maybe(whole(0, MOST_WORLD)), "place": maybe(place)})
        return hello
    check(hello, {"world": whole(1, MOST_WORLD), "attempt": maybe(whole(0, MOST_ATTEMPTS)), "store": whole(0, 65535)})
    check(hello, {"rank": whole(0, hello["world"] - 1)})
    return hello
