"""Reports of tests that launch jobs: properties of each run, and the explanation for JUnit's file."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import pytest

from breakrank.errors import BreakrankError
from breakrank.plugin.junit import SAID
from breakrank.plugin.properties import add, of_result
from breakrank.report import explain
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run

_RUNS: pytest.StashKey[list[Result]] = pytest.StashKey()
_NAME = "breakrank-launch-reports"


def note(item: pytest.Item, result: Result) -> None:
    """Take note of a run that a test has launched."""
    item.stash.setdefault(_RUNS, []).append(result)
    add(item, **of_result(result))
    plugins = item.config.pluginmanager
    if item.config.getoption("xmlpath", None) and not plugins.has_plugin(_NAME):
        plugins.register(_Explained(), _NAME)


class _Explained:
    """Hangs the explanations of a test's runs on its last report."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Explain the runs."""
        report = yield
        if call.when == "teardown" and _RUNS in item.stash:
            said = []
            for result in item.stash[_RUNS]:
                # A test may remove what it launched.
                with contextlib.suppress(BreakrankError):
                    said.append(explain(load_run(result.folder)))
            setattr(report, SAID, "\n\n".join(said))
        return report
