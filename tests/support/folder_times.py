"""Print the time that the tests of each folder took.

A test takes its set-up, its call and its tear-down; with several workers the sums are of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest


class Row(NamedTuple):
    """The number of tests of a folder, and the seconds that they took together."""

    folder: str
    tests: int
    seconds: float


def rows(reports: Iterable[pytest.TestReport]) -> list[Row]:
    """Return a row for each folder, the one that took longest first."""
    tests: dict[str, set[str]] = {}
    seconds: dict[str, float] = {}
    for report in reports:
        folder = report.nodeid.partition("::")[0].rpartition("/")[0]
        tests.setdefault(folder, set()).add(report.nodeid)
        seconds[folder] = seconds.get(folder, 0.0) + report.duration
    found = [Row(folder, len(ids), seconds[folder]) for folder, ids in tests.items()]
    return sorted(found, key=lambda row: row.seconds, reverse=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table after a run of the tests of several folders."""
    every = (one for reports in terminalreporter.stats.values() for one in reports)
    found = rows(one for one in every if isinstance(one, pytest.TestReport))
    if len(found) < 2:
        return
    terminalreporter.section("time by folder")
    whole = sum(row.seconds for row in found)
    for row in [*found, Row("all", sum(row.tests for row in found), whole)]:
        terminalreporter.write_line(
            f"{row.seconds:8.1f} s {row.seconds / (whole or 1.0):6.1%} {row.tests:6} tests  {row.folder}"
        )
