"""The reception: the TCP port that deputies call, open only as long as some are expected."""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from breakrank.host.wire import Greeting, Wire, WireCut

#: The most callers that may be about to prove who they are, and their most seconds.
MOST_CALLERS, PROVES_WITHIN_S = 256, 10.0
#: The connections that the kernel keeps until they are taken: a thousand nodes may call at once.
_BACKLOG = 1024


@dataclass
class _Caller:
    wire: Wire
    greeting: Greeting
    since: float = field(default_factory=time.monotonic)


class Reception:
    """Takes in those who know the `key`, and nobody else."""

    def __init__(self) -> None:
        self.key = secrets.token_hex(32)
        self._callers: list[_Caller] = []
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, dualstack_ipv6=dual, backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)

    @property
    def port(self) -> int:
        """The port."""
        return int(self._listener.getsockname()[1])

    def fileno(self) -> int:
        """Return the descriptor that is readable when somebody calls, or says more."""
        return self._poll.fileno()

    def arrivals(self) -> list[tuple[Wire, dict[str, Any]]]:
        """Return the deputies that have come since the last call: the wire, and what each told about itself."""
        self._accept()
        come = []
        for caller in list(self._callers):
            try:
                hello = self._hear(caller)
            except WireCut:
                self._leave(caller)
                caller.wire.close()
                continue
            if hello is not None:
                self._leave(caller)
                come.append((caller.wire, hello))
        return come

    def close(self) -> None:
        """Listen no more, and hang up on who has proved nothing."""
        for caller in self._callers:
            caller.wire.close()
        self._callers.clear()
        self._poll.close()
        self._listener.close()

    def _leave(self, caller: _Caller) -> None:
        self._callers.remove(caller)
        self._poll.unregister(caller.wire)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._callers) < MOST_CALLERS:
                line, _ = self._listener.accept()
                caller = _Caller(Wire.over(line), Greeting(self.key, caller=False))
                self._callers.append(caller)
                self._poll.register(caller.wire, select.EPOLLIN)

    def _hear(self, caller: _Caller) -> dict[str, Any] | None:
        """Return what a deputy tells about itself, once it has proved that it is one. Raises `WireCut`."""
        messages = caller.wire.receive()
        # It counts against nobody that we were away.
        if not messages and time.monotonic() - caller.since > PROVES_WITHIN_S:
            raise WireCut("it took too long")
        for number, message in enumerate(messages, 1):
            if caller.greeting.done:
                # Ranks may have called the deputy already, which it says next.
                caller.wire.keep(messages[number:])
                return hello_of(message)
            caller.greeting.take(caller.wire, message)
            caller.since = time.monotonic()
        return None


def hello_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return what a deputy tells about itself, in its first message. Raises `WireCut` for any other."""
    hello = message.get("hello")
    texts = ("name", "host", "machine", "folder", "address", "interface", "python")
    if not isinstance(hello, dict) or not all(isinstance(hello.get(name), str) for name in texts):
        raise WireCut("it does not say what it is")
    return hello
