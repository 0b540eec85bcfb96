"""Reports of tests that launch jobs: properties of each run, its page, and the explanation for JUnit's file."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import pytest

from breakrank.errors import BreakrankError
from breakrank.plugin.junit import SAID
from breakrank.plugin.pages import Pages
from breakrank.plugin.properties import add, of_result
from breakrank.report import explain
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run

_RUNS: pytest.StashKey[list[Result]] = pytest.StashKey()
_NAME = "breakrank-launch-reports"


def note(item: pytest.Item, result: Result, pages: Pages) -> None:
    """Take note of a run that a test has launched, which gets a page if the test fails."""
    item.stash.setdefault(_RUNS, []).append(result)
    add(item, **of_result(result))
    plugins = item.config.pluginmanager
    if not plugins.has_plugin(_NAME):
        plugins.register(_Reports(pages, bool(item.config.getoption("xmlpath", None))), _NAME)


class _Reports:
    """Adds to the reports of a test what its runs need: their pages, and, `explained`, their explanations."""

    def __init__(self, pages: Pages, explained: bool) -> None:
        self._pages, self._explained = pages, explained

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the pages of the runs of a test that failed, and explain the runs in the end."""
        report = yield
        runs = item.stash.get(_RUNS, [])
        if report.failed or (self._pages.every and call.when == "call"):
            written = [line for result in runs for line in self._pages.write_once(result.folder)]
            # A test that says `run.explain()` has named them.
            paths = [line for line in written if line not in report.longreprtext]
            if paths:
                report.sections.append(("pages of the runs", "\n".join(paths)))
        if call.when == "teardown" and runs and self._explained:
            said = []
            for result in runs:
                # A test may remove what it launched.
                with contextlib.suppress(BreakrankError):
                    said.append(explain(load_run(result.folder), pages=self._pages.of(result.folder)))
            setattr(report, SAID, "\n\n".join(said))
        return report
