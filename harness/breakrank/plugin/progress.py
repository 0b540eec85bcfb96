"""Live progress while ranks run: one line on a terminal that is rewritten, and rare lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from breakrank.report.terminal import live_line

if TYPE_CHECKING:
    from breakrank.conductor.conductor import Progress

#: Seconds between two rewrites of the line on a terminal, and between two lines elsewhere.
_REWRITE_S = 0.1
_QUIET_S = 10.0


class Live:
    """Shows where the ranks are: call it with each `Progress`. In an xdist worker there is nobody to show it to."""

    def __init__(self, config: pytest.Config, title: str) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        self._title = title
        self._started = self._last = time.monotonic()
        self._column = 0
        self._shown = False

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away again."""
        if self._shown:
            back = f"\x1b[{self._column}C" if self._column else ""
            self._write(f"\r\x1b[K\x1b[A\r{back}")

    def tell(self, text: str) -> None:
        """Write a line that stays, where nobody rewrites one."""
        if self._reporter is not None and not self._reporter.isatty:
            with self._uncaptured():
                self._reporter.write_line(f"{self._title}: {text}")

    def __call__(self, progress: Progress) -> None:
        """Show the progress, if it is time to."""
        if self._reporter is None:
            return
        tty = bool(self._reporter.isatty) and self._reporter.verbosity >= 0
        now = time.monotonic()
        if now - self._last < (_REWRITE_S if tty else _QUIET_S):
            return
        self._last = now
        if tty:
            self._rewrite(live_line(progress.phase, progress.attempt, progress.ranks, self._width() - 1))
            return
        line = live_line(progress.phase, progress.attempt, progress.ranks, 200)
        with self._uncaptured():
            self._reporter.write_line(f"{self._title} after {now - self._started:.0f} s: {line}")

    def _rewrite(self, line: str) -> None:
        """Write the line below the one that pytest is writing, whose column is kept for later."""
        if not self._shown:
            self._column = int(self._reporter._tw.width_of_current_line)
            self._shown = True
            line = f"\n{line}"
        self._write(f"\r\x1b[K{line}" if not line.startswith("\n") else line)

    def _width(self) -> int:
        return int(self._reporter._tw.fullwidth)

    def _write(self, text: str) -> None:
        """Write past the reporter, which would count the text as its own."""
        with self._uncaptured():
            sys.stdout.write(text)
            sys.stdout.flush()

    @contextlib.contextmanager
    def _uncaptured(self) -> Iterator[None]:
        """Lift pytest's capture for the length of the block."""
        if self._capture is None:
            yield
            return
        with self._capture.global_and_fixture_disabled():
            yield
