"""A login: the ssh by which a deputy is brought to a host. Its end, or its pipe's, ends all of ours there."""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.host.session import Session
from breakrank.host.supervisor import is_running
from breakrank.host.wire import MARKER, MOST_LINE, Wire
from breakrank.nodes.bootstrap import start

#: Settings of ssh: it asks nobody for anything, and finds out by itself that a host is lost.
_SETTINGS = ("BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=5", "ServerAliveCountMax=6")
#: The most bytes that a login is taken to print before our first word, and the seconds that its last words may take.
_MOST_PRINTED, _LAST_WORDS_S = 1 << 20, 3.0
#: The beginning of lines that the deputy says about itself.
_OURS = "breakrank: "


class Login:
    """One ssh to the host `name`. Raises `BreakrankError` if it cannot be started."""

    def __init__(self, session: Session, ssh: tuple[str, ...], name: str, settings: dict[str, Any]) -> None:
        self.name = name
        command, self._unsent = start({**settings, "name": name, "piped": True})
        options = [word for one in _SETTINGS for word in ("-o", one)]
        ends = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        theirs = [ends[0][0], ends[1][1], ends[2][1]]
        self._in, self._out, self._err = ends[0][1], ends[1][0], ends[2][0]
        try:
            self.pid = session.spawn([*ssh, "-T", *options, "--", name, command], {**os.environ}, Path("/"), theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._printed = self._said = b""
        #: True once ssh has closed its end of the pipe.
        self.over = False
        #: The messages that came with the beginning of a wire through these pipes.
        self.first: list[dict[str, Any]] = []

    def go_on(self) -> Wire | None:
        """Send and read what can be sent and read now; return the wire, if it is to go through these pipes."""
        self._send()
        self._said += _read(self._err) or b""
        printed = _read(self._out)
        self.over = self.over or printed is None
        self._printed += printed or b""
        before, found, after = self._printed.partition(MARKER)
        if found:
            wire = Wire(os.dup(self._out), os.dup(self._in))
            wire.most = MOST_LINE
            self.first = wire.take(after)
            return wire
        if len(before) > _MOST_PRINTED:
            raise BreakrankError(f"host {self.name}: its login prints without end; have it print nothing without a tty")
        return None

    def why(self) -> str:
        """Return the last words of ssh, or of the deputy, as a clause; empty if there are none."""
        until = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < until:
            select.select([self._err], [], [], 0.1)
            said = _read(self._err)
            self._said += said or b""
            if said is None:
                break
        lines = [line.strip() for line in self._said.decode(errors="replace").splitlines() if line.strip()]
        ours = [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]
        return (ours or lines or [""])[-1][:300]

    def sources(self) -> list[int]:
        """Return what is readable when ssh, or the deputy, says something."""
        return [self._err] if self.over else [self._out, self._err]

    def targets(self) -> list[int]:
        """Return what can be written to when ssh takes more of what is sent."""
        return [self._in] if self._unsent else []

    def hang_up(self) -> None:
        """Close the pipe, at which all of ours there ends."""
        with contextlib.suppress(OSError):
            os.close(self._in)
        self._in = -1

    def await_end(self, limit_s: float) -> None:
        """Wait until ssh has ended, which it does when nothing of ours is left there."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until and is_running(self.pid):
            select.select([self._err], [], [], 0.01)
            if _read(self._err) is None:
                time.sleep(0.01)
            _read(self._out)

    def close(self) -> None:
        """Give the pipes back."""
        for descriptor in {self._in, self._out, self._err} - {-1}:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                self._unsent = self._unsent[os.write(self._in, self._unsent) :]


def _read(descriptor: int) -> bytes | None:
    """Return what can be read now; None at the end."""
    data = b""
    try:
        while part := os.read(descriptor, 65536):
            data += part
    except BlockingIOError:
        return data
    except OSError:
        return data or None
    return data or None
