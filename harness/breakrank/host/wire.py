"""The wire between the Conductor and a deputy: JSON objects, one a line, over TCP or over the pipes of another program.

Each end shows the other that it knows the key, which never goes over the wire (HMAC-SHA256 of two fresh numbers). An
end that is not known yet may say little, and one that is known has bounds, too.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import select
import socket
from collections.abc import Sequence
from typing import Any

from breakrank_agent.protocol.checked import Unfit, check, is_text, parse

#: The longest line of an end that is known, and of one that is not. A crash dump, which is the largest, fits.
MOST_LINE, MOST_UNKNOWN = 4 << 20, 4096
#: The bytes that may wait to be sent before whoever can wait makes less of them.
FULL = 4 << 20
#: The bytes in one read.
_CHUNK = 1 << 18
#: Seconds without a sign of the other machine until a connection is lost.
LOST_S = 30
#: The line before which all that a login says is passed over, where the wire is the pipes of another program.
MARKER = b"breakrank-wire\n"


class WireCut(ConnectionError):
    """The other end is gone, or says what it cannot say; the message is the reason, in a clause."""


class Wire:
    """One end. `reader` and `writer` are descriptors, which it closes; neither makes anybody wait."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        for descriptor in (reader, writer):
            os.set_blocking(descriptor, False)
        self._heard, self._unsent = b"", bytearray()
        self._kept: list[dict[str, Any]] = []
        self.most = MOST_UNKNOWN

    @classmethod
    def over(cls, line: socket.socket) -> Wire:
        """Return the end of a TCP connection, which is found to be lost if the other machine falls silent."""
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            options = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", LOST_S // 5))
            for name, value in (*options, ("TCP_USER_TIMEOUT", LOST_S * 1000)):
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        descriptor = line.detach()
        return cls(descriptor, descriptor)

    def fileno(self) -> int:
        """Return the descriptor that is readable when something has come."""
        return self._reader

    @property
    def writer(self) -> int:
        """The descriptor that can be written to when there is room for more."""
        return self._writer

    @property
    def unsent(self) -> int:
        """The bytes that wait to be sent."""
        return len(self._unsent)

    def send(self, **message: Any) -> None:
        """Send a message, or keep it until there is room. Raises `WireCut`."""
        self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send as much as there is room for. Raises `WireCut`."""
        try:
            while self._unsent:
                sent = os.write(self._writer, memoryview(self._unsent)[:_CHUNK])
                del self._unsent[:sent]
        except BlockingIOError:
            return
        except OSError as error:
            raise WireCut(error.strerror or "its wire is cut") from None

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that have come, without waiting. Raises `WireCut`."""
        if self._kept:
            kept, self._kept = self._kept, []
            return kept
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise WireCut(error.strerror or "its wire is cut") from None
        if not data:
            raise WireCut("its wire was closed")
        return self.take(data)

    def keep(self, messages: Sequence[dict[str, Any]]) -> None:
        """Have the next `receive` return messages that came with one that was waited for."""
        self._kept += messages

    def take(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that end in these bytes, which come next. Raises `WireCut`."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        if len(self._heard) > self.most:
            raise WireCut("it says a line without an end")
        try:
            return [parse(line, self.most) for line in lines]
        except Unfit as error:
            raise WireCut(f"what it says is damaged: {error}") from None

    def wait(self, seconds: float) -> None:
        """Wait until something has come, or can be sent."""
        select.select([self._reader], [self._writer] if self._unsent else [], [], seconds)

    def close(self) -> None:
        """Close the wire."""
        for descriptor in {self._reader, self._writer}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._reader = self._writer = -1


class Greeting:
    """The first words of an end: each proves that it knows the key. `caller` is the deputy's, which begins."""

    def __init__(self, key: str, caller: bool) -> None:
        self._key, self._caller = key.encode(), caller
        self._own, self._other = secrets.token_hex(32), ""
        #: True once the other end has proved that it knows the key.
        self.done = False

    def begin(self, wire: Wire) -> None:
        """Say the first word, as the deputy does."""
        wire.send(nonce=self._own)

    def take(self, wire: Wire, message: dict[str, Any]) -> None:
        """Take a word, and answer. Raises `WireCut` for one who does not know the key."""
        try:
            if self._caller:
                check(message, {"nonce": is_text, "proof": is_text})
                self._other = message["nonce"]
                self._believe(message["proof"], b"conductor")
                wire.send(proof=self._proof(b"deputy"))
            elif not self._other:
                check(message, {"nonce": is_text})
                self._other = message["nonce"]
                wire.send(nonce=self._own, proof=self._proof(b"conductor"))
                return
            else:
                check(message, {"proof": is_text})
                self._believe(message["proof"], b"deputy")
        except Unfit as error:
            raise WireCut(f"its greeting is none: {error}") from None
        self.done = True
        wire.most = MOST_LINE

    def _believe(self, proof: str, who: bytes) -> None:
        if not hmac.compare_digest(proof.encode(), self._proof(who).encode()):
            raise WireCut("it does not know the key")

    def _proof(self, who: bytes) -> str:
        first, second = (self._own, self._other) if self._caller else (self._other, self._own)
        return hmac.new(self._key, b"|".join((who, first.encode(), second.encode())), "sha256").hexdigest()


def call(host: str, port: int, key: str, connects_s: float, answers_s: float) -> Wire | None:
    """Return a wire to a Conductor that knows the key; None if nobody answers there in time. Raises `WireCut`.

    The kernel accepts a connection by itself. A Conductor that a hundred deputies call at once answers when it can.
    """
    try:
        line = socket.create_connection((host, port), connects_s)
    except OSError:
        return None
    wire, greeting = Wire.over(line), Greeting(key, caller=True)
    greeting.begin(wire)
    while not greeting.done:
        if not select.select([wire], [], [], answers_s)[0]:
            wire.close()
            return None
        for message in wire.receive():
            greeting.take(wire, message)
    return wire
