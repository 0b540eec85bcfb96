"""Ctrl-C: the first one interrupts what runs; later ones, and those while the session closes, find it closing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any

import pytest

#: So many presses, after the session has begun to close, end the process at once.
_MOST = 3
_CLOSING = b"\nbreakrank: the ranks are being ended; two more Ctrl-C leave that to their supervisor\n"


class Interrupts:
    """Takes SIGINT as long as the session lasts, if Python's own handler would.

    Nothing is raised while a session closes: that would leave half of it undone, with a traceback of pytest's own. A
    person who does not want to wait is let go, and the supervisor ends what the process leaves behind. It is said who
    does that if it `speaks`: an xdist worker does not.
    """

    def __init__(self, speaks: bool = True) -> None:
        self._speaks = speaks
        self._before: Any = None
        self._closing = False
        self._pressed = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Take the signal, unless somebody else has."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._take)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """From now on an interruption would come too late for anything but harm."""
        self._closing = True

    def pytest_unconfigure(self) -> None:
        """Give the signal back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _take(self, number: int, frame: FrameType | None) -> None:
        """Interrupt what runs, once."""
        # pytest names the place of an interruption: where the press came, and not here.
        __tracebackhide__ = True
        if not self._closing:
            self._closing = True
            raise KeyboardInterrupt
        self._pressed += 1
        if self._pressed == 1 and self._speaks:
            with contextlib.suppress(OSError):
                os.write(2, _CLOSING)
        if self._pressed >= _MOST:
            os._exit(pytest.ExitCode.INTERRUPTED)
