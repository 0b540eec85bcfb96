"""The account of a whole run of the tests: it has used all that the machine can do, and left out nothing unlisted.

With `--account`, as CI has it, a capability that the doctor finds and no test used fails the run, and so does a test
that was skipped and is not in `skips.txt`. A capability is used by a test that asks for it, starts ranks and passes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Generator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from breakrank import doctor
from breakrank.conductor import conductor

LIST = Path(__file__).with_name("skips.txt")
#: The name of a report's user properties that list the capabilities that its test used.
USED = "capability"
#: The capabilities that the runners need.
RUNNERS = {"sandbox": ("netns",), "docker": ("docker",)}
#: Functions whose call is the use of a capability that no test asks for by name.
CALLS = {
    "debugger": ("breakrank.host.crash_dump", "read_native"),
    "namespaces": ("breakrank.runners.workdir", "make_view"),
}


def listed(text: str) -> list[str]:
    """Return the patterns of a list of tests; the text after a # is the reason."""
    return [pattern for line in text.splitlines() if (pattern := line.partition("#")[0].strip())]


def complaints(has: set[str], used: set[str], skipped: dict[str, str], patterns: list[str]) -> list[str]:
    """Return the complaints about a whole run, one line each. `skipped` are the reasons by test."""
    idle = [f"this machine has {name}, and no test used it" for name in sorted(has - used)]
    unlisted = [
        f"{test} was skipped ({reason}), and {LIST.name} does not list it"
        for test, reason in sorted(skipped.items())
        if not any(fnmatchcase(test, pattern) for pattern in patterns)
    ]
    return idle + unlisted


class Account:
    """Keeps the account in each process that runs tests, and draws it up in the process that reports them."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._asked: set[str] = set()
        self._used: set[str] = set()
        self._of_modules: dict[str, set[str]] = {}
        self._ran = False
        self._complaints: list[str] = []

    def watch(self, add_cleanup: Callable[[Callable[[], None]], None]) -> None:
        """Notice each question to the doctor, each start of ranks, and each other use of a capability."""

        def notice(module: Any, name: str, then: Callable[..., None]) -> None:
            plain = getattr(module, name)

            @functools.wraps(plain)
            def noticed(*args: Any, **kwargs: Any) -> Any:
                result = plain(*args, **kwargs)
                then(result, *args)
                return result

            setattr(module, name, noticed)
            add_cleanup(lambda: setattr(module, name, plain))

        notice(doctor, "_missing", lambda reason, need: None if reason else self._asked.add(need))
        notice(conductor.Conductor, "__init__", lambda _, made, plan, *__: self._starts(plan))
        for capability, (where, name) in CALLS.items():
            notice(importlib.import_module(where), name, lambda *_, of=capability: self._used.add(of))

    def _starts(self, plan: Any) -> None:
        self._ran = True
        self._used.update(RUNNERS.get(plan.runner, ()))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Count the capabilities that a module asks for while it is imported as asked for by its tests."""
        self._asked = set()
        report = yield
        if isinstance(collector, pytest.Module):
            self._of_modules[collector.nodeid] = self._asked
        return report

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin with the capabilities that the test's module has asked for."""
        self._asked = set(self._of_modules.get(item.nodeid.partition("::")[0], ()))
        self._used, self._ran = set(), False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Add the used capabilities to the test's last report, which comes to the process that collects reports."""
        used = self._used | (self._asked if self._ran else set())
        item.user_properties += [(USED, name) for name in sorted(used)]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Draw the account up, and fail a run that is to account for itself."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if not self._strict or reporter is None or hasattr(session.config, "workerinput"):
            return
        passed = {report.nodeid for report in reporter.stats.get("passed", []) if report.when == "call"}
        ended = [r for reports in reporter.stats.values() for r in reports if getattr(r, "when", "") == "teardown"]
        used = {value for r in ended if r.nodeid in passed for name, value in r.user_properties if name == USED}
        skipped = {report.nodeid: _reason(report) for report in reporter.stats.get("skipped", [])}
        has = {name for name, lack in doctor.capabilities().items() if not lack}
        self._complaints = complaints(has, used, skipped, listed(LIST.read_text()))
        if self._complaints and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the complaints."""
        if self._complaints:
            terminalreporter.section("account")
            for line in self._complaints:
                terminalreporter.write_line(line)


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    fails = "fail if no test used a capability of this machine, or one was skipped that skips.txt does not list"
    parser.addoption("--account", action="store_true", help=fails)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the account."""
    account = Account(config.getoption("--account"))
    account.watch(config.add_cleanup)
    config.pluginmanager.register(account, "breakrank-account")
