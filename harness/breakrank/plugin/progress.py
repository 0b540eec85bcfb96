"""Live progress while ranks run: one line on a terminal that is rewritten, and rare lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from breakrank.conductor.conductor import WARMING
from breakrank.plugin.selection import Selection
from breakrank.report.layout import shorten
from breakrank.report.terminal import live_line

if TYPE_CHECKING:
    from breakrank.conductor.conductor import Progress

#: Seconds between two rewrites of the line on a terminal, and between two lines elsewhere.
_REWRITE_S = 0.1
_QUIET_S = 10.0


class _Line:
    """A line below the one that pytest is writing."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager
        self._column = 0
        self._shown = False

    @property
    def _reporter(self) -> Any:
        return self._plugins.get_plugin("terminalreporter")

    @property
    def tty(self) -> bool:
        """True if there is a terminal on which a line can be rewritten."""
        return self._reporter is not None and bool(self._reporter.isatty) and self._reporter.verbosity >= 0

    @property
    def width(self) -> int:
        """The cells that a line may take, and one less: a terminal wraps a line that is full."""
        return int(self._reporter._tw.fullwidth) - 1

    def rewrite(self, line: str) -> None:
        """Write the line below the one that pytest is writing, whose column is kept for later."""
        if not self._shown:
            self._column = int(self._reporter._tw.width_of_current_line)
            self._shown = True
            self._write(f"\n{line}")
        else:
            self._write(f"\r\x1b[K{line}")

    def clear(self) -> None:
        """Take the line away again."""
        if self._shown:
            self._shown = False
            back = f"\x1b[{self._column}C" if self._column else ""
            self._write(f"\r\x1b[K\x1b[A\r{back}")

    def stay(self, line: str) -> None:
        """Write a line that stays."""
        with self._uncaptured():
            self._reporter.write_line(line)

    def _write(self, text: str) -> None:
        """Write past the reporter, which would count the text as its own."""
        with self._uncaptured():
            sys.stdout.write(text)
            sys.stdout.flush()

    @contextlib.contextmanager
    def _uncaptured(self) -> Iterator[None]:
        """Lift pytest's capture for the length of the block."""
        capture: Any = self._plugins.get_plugin("capturemanager")
        if capture is None:
            yield
            return
        with capture.global_and_fixture_disabled():
            yield


class Live:
    """Shows where the ranks of a case are: call it with each `Progress`; `place` is the case's in the session.

    In an xdist worker there is nobody to show it to.
    """

    def __init__(self, config: pytest.Config, title: str, place: str = "") -> None:
        self._there = config.pluginmanager.has_plugin("terminalreporter")
        self._line = _Line(config)
        self._title = title
        self._place = f"{place} " if place else ""
        self._started = self._last = time.monotonic()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away again."""
        self._line.clear()

    def tell(self, text: str) -> None:
        """Write a line that stays, where nobody rewrites one."""
        if self._there and not self._line.tty:
            self._line.stay(f"{self._title}: {text}")

    def __call__(self, progress: Progress) -> None:
        """Show the progress, if it is time to; what takes long is said before it begins."""
        if not self._there:
            return
        tty, now = self._line.tty, time.monotonic()
        at_once = tty and progress.phase.startswith(WARMING)
        if not at_once and now - self._last < (_REWRITE_S if tty else _QUIET_S):
            return
        self._last = now
        width = self._line.width - len(self._place) if tty else 200
        line = live_line(progress.phase, progress.attempt, progress.ranks, width, progress.waiting)
        if tty:
            self._line.rewrite(f"{self._place}{line}")
        else:
            self._line.stay(f"{self._place}{self._title} after {now - self._started:.0f} s: {line}")


class Workers:
    """Shows on the controller's terminal which cases xdist's workers run; before the first, the lines of `first`."""

    def __init__(self, config: pytest.Config, selection: Selection, first: Callable[[], Sequence[str]]) -> None:
        self._first: Callable[[], Sequence[str]] | None = first
        self._line = _Line(config)
        self._selection = selection
        self._running: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, object, object]:
        """Add a case."""
        self._line.clear()
        lines, self._first = self._first() if self._first is not None else (), None
        for line in lines:
            self._line.stay(line)
        self._running[nodeid] = self._selection.begin(nodeid)
        result = yield
        self._show()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, object, object]:
        """Take the line away while pytest writes, and take away a case that is over."""
        self._line.clear()
        if report.when == "teardown":
            self._running.pop(report.nodeid, None)
        result = yield
        self._show()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Take the line away for good."""
        self._running.clear()
        self._line.clear()

    def _show(self) -> None:
        if self._line.tty and self._running:
            said = " │ ".join(f"{place} {nodeid}" for nodeid, place in self._running.items())
            self._line.rewrite(shorten(said, self._line.width))
