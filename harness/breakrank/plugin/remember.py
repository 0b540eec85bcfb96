"""The session's part that remembers: each result goes into the memory, and as a line of JSON into a file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from breakrank.errors import BreakrankError
from breakrank.memory.agenda import Agenda
from breakrank.memory.recorder import Recorder
from breakrank.memory.store import NAME
from breakrank.plugin.collect import Subject
from breakrank.plugin.entries import entry_of, result_line, session_line, session_of
from breakrank.plugin.options import Options
from breakrank.plugin.usage_errors import one_line


class Remember:
    """Writes the session and its results. Only the controller has one: workers report to it."""

    def __init__(self, config: pytest.Config, options: Options, subjects: Sequence[Subject], agenda: Agenda) -> None:
        self._options, self._done = options, len(agenda.done)
        self._subjects = {subject.nodeid: subject for subject in subjects}
        self._session = session_of(config, options, len(subjects))
        self._recorder = Recorder(options.runs / NAME, self._session, agenda.session)
        #: Opened first, so that a file that cannot be written is said before anything runs.
        self._lines = _open(options.json) if options.json is not None else None
        self._site = self._lack = ""

    @property
    def lack(self) -> str:
        """The reason for which the history does not hold all of the session; empty if it does."""
        return self._recorder.lack

    def pytest_sessionstart(self) -> None:
        """Write the session."""
        self._recorder.begin()
        self._write(session_line(self._session, self._recorder.id))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how many cases were chosen, where this process collects."""
        self._chosen(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Note how many cases were chosen, where xdist's workers collect."""
        self._chosen(ids)

    def _chosen(self, nodeids: Iterable[str]) -> None:
        self._recorder.chosen(self._done + sum(nodeid in self._subjects for nodeid in nodeids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the result of a case, whichever process ran it."""
        subject = self._subjects.get(report.nodeid)
        if subject is None or not (report.when == "call" or not report.passed):
            return
        told = {str(name): str(value) for name, value in report.user_properties}
        told = told or {"sentence": one_line(report.longreprtext.strip() or "its process died")}
        entry = entry_of(subject, told, self._options.folder)
        self._recorder.add(entry)
        self._write(result_line(entry, told.get("run_directory", ""), self._recorder.id))

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write the end, and the site if one is asked for, after all others: they may change the exit code."""
        yield
        self._recorder.end(int(session.exitstatus))
        self._close()
        if self._options.report is not None:
            self._site = self._write_site(self._options.report)

    def _write_site(self, site: Path) -> str:
        from breakrank.memory.reading import read
        from breakrank.timeline.site import write_report

        runs = self._options.runs
        try:
            return f"breakrank: report: {write_report(read(runs), runs, site)}"
        except BreakrankError as error:
            return f"breakrank: no report was written: {one_line(error)}"

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the report is, and what the memory lacks."""
        if self.lack:
            lack = one_line(self.lack)
            terminalreporter.write_line(f"breakrank: the history does not have all of this session: {lack}")
        if self._lack:
            terminalreporter.write_line(f"breakrank: {self._lack}")
        if self._site:
            terminalreporter.write_line(self._site)

    def _write(self, line: Mapping[str, Any]) -> None:
        """Write a line of JSON at once. A full disk costs the rest of the lines, and not the session."""
        if self._lines is None:
            return
        try:
            self._lines.write(json.dumps(line) + "\n")
            self._lines.flush()
        except OSError as error:
            self._lack = f"{self._options.json} is not whole: {error.strerror}"
            self._close()

    def _close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            # Closing writes what is left, which fails where a line did.
            with contextlib.suppress(OSError):
                lines.close()


def _open(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise BreakrankError(f"--scenario-json: {path} cannot be written: {error.strerror}") from None
