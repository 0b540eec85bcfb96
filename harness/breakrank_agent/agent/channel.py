"""The rank's line to the Conductor: one JSON object each way. A rank that parks waits here for its answer."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from typing import Any, Optional

from breakrank_agent.protocol.checked import Unfit, parse


class Channel:
    """A rank's end of its line, on a descriptor. With `limit_s` it waits no longer than that for an answer.

    If nobody answers any more, the answer is empty, and the rank goes on as if nothing had been asked.
    """

    def __init__(self, descriptor: int, limit_s: Optional[float] = None) -> None:
        os.set_inheritable(descriptor, False)
        self._line = socket.socket(fileno=descriptor)
        self._limit_ms = None if limit_s is None else limit_s * 1000
        self._lock = threading.Lock()
        self._rest = b""

    def tell(self, message: dict[str, Any]) -> None:
        """Say something that needs no answer."""
        with self._lock:
            self._write(message)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Say something and wait, for as long as it takes, until the Conductor answers."""
        with self._lock:
            self._write(message)
            return self.hear()

    def hear(self) -> dict[str, Any]:
        """Wait, for as long as it takes, until the Conductor says something."""
        while b"\n" not in self._rest:
            data = self._read()
            if not data:
                return {}
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return parse(line)
        except Unfit:
            return {}

    @property
    def gone(self) -> bool:
        """True if nobody is at the other end any more; messages that were sent before may still be there to be read."""
        ends = select.poll()
        try:
            ends.register(self._line, select.POLLRDHUP)
            return bool(ends.poll(0))
        except (OSError, ValueError):
            return True

    def _read(self) -> bytes:
        """Return the bytes that have come; none if the other end is gone, or takes longer than the limit."""
        try:
            if self._limit_ms is not None:
                waits = select.poll()
                waits.register(self._line, select.POLLIN)
                if not waits.poll(self._limit_ms):
                    return b""
            return self._line.recv(4096)
        except OSError:
            return b""

    def _write(self, message: dict[str, Any]) -> None:
        flags = socket.MSG_NOSIGNAL | (0 if self._limit_ms is None else socket.MSG_DONTWAIT)
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[self._line.send(data, flags) :]
        except OSError:
            # The Conductor is gone, or hears nothing: the rank does not end of it.
            return
