"""GitHub Actions: a message beside the line that is to blame, and a table of all that is not as recorded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from breakrank.errors import BreakrankError
from breakrank.files.bounded import plain
from breakrank.report.blamed_line import CodeLine, blamed_line
from breakrank.runs.saved_run import limits, load_run

#: The variables by which GitHub says where the repository is, and where the summary goes.
WORKSPACE, SUMMARY = "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"
#: The seconds of a core that finding the line of one failure may take.
_MOST_S = 30.0


@dataclass(frozen=True)
class _Wrong:
    """A test that failed, with what its run came to."""

    nodeid: str
    outcome: str
    recorded: str
    sentence: str
    folder: str


class Annotations:
    """Collects the failures of tests that ran ranks, and says them in GitHub's way at the end."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.environ.get(WORKSPACE) or root)
        self._wrong: dict[str, _Wrong] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure that has an outcome, or should have had one."""
        told = {str(name): str(value) for name, value in report.user_properties}
        if report.failed and report.when == "call" and ("outcome" in told or "scenario" in told):
            outcome = told.get("outcome", "") or "not tested"
            sentence = told.get("sentence", "") or "there is no verdict"
            facts = (outcome, told.get("recorded", ""), sentence, told.get("run_directory", ""))
            self._wrong[report.nodeid] = _Wrong(report.nodeid, *facts)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the commands of the workflow, and the table."""
        for wrong in self._wrong.values():
            terminalreporter.ensure_newline()
            terminalreporter.write_line(self._command(wrong))
        path = os.environ.get(SUMMARY)
        if path and self._wrong:
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
                file.write("\n".join(self._table()) + "\n")

    def _command(self, wrong: _Wrong) -> str:
        """Return the workflow command that shows a failure beside its line."""
        place = self._place(wrong.folder)
        where = f"file={_property(place.file)},line={place.line}," if place is not None else ""
        recorded = f" (on record {wrong.recorded})" if wrong.recorded else ""
        title = _property(f"{wrong.outcome}: {wrong.nodeid}")
        return f"::error {where}title={title}::{_data(plain(wrong.sentence + recorded))}"

    def _place(self, folder: str) -> CodeLine | None:
        """Return the blamed line of a run, in the repository; None if it lies elsewhere, or is not known."""
        if not folder:
            return None
        try:
            with limits(Path(folder), _MOST_S):
                found = blamed_line(load_run(Path(folder)))
            if found is None or not Path(os.path.abspath(found.file)).is_relative_to(os.path.abspath(self._root)):
                return None
            return CodeLine(os.path.relpath(found.file, self._root), found.line)
        except (BreakrankError, LookupError, TypeError, ValueError):
            # A failure whose records cannot be read is shown without a line.
            return None

    def _table(self) -> Iterator[str]:
        yield from (
            "### Not as recorded",
            "",
            "| case | outcome | on record | what happened |",
            "| --- | --- | --- | --- |",
        )
        for wrong in self._wrong.values():
            cells = (wrong.nodeid, wrong.outcome, wrong.recorded, wrong.sentence)
            yield f"| {' | '.join(map(_cell, cells))} |"


def _data(text: str) -> str:
    """Return a text as a workflow command takes it: on one line, and no other command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text as a property of a workflow command takes it."""
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    """Return a text as a cell of a table in Markdown, in which nothing is markup."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{letter}" if letter in "\\|`*_[]!#~" else letter for letter in escaped)
