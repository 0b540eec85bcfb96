"""Fixtures that all tests share: a bench that makes runs, and a way to make a run in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import jobs
from support.declared import StrictBench
from support.plans import PROGRAMS, plan_of

from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import SavedRun, load_run
from breakrank_agent.protocol.fault import Strike

#: tests/plugin runs pytest inside of pytest; plugins may only be named in the topmost conftest.
pytest_plugins = ["pytester", "support.account", "support.folder_times"]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the launchers that this machine lacks and that are not tried, unless scenarios are run."""
    if config.getoption("--scenario", default=None):
        return []
    return [f"not tried here: {name}, which this machine lacks ({cure})" for name, cure in jobs.lacking().items()]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield a bench of the whole test session: its warm process is shared, and each event of its runs is declared."""
    with StrictBench(tmp_path_factory.mktemp("runs")) as made:
        yield made


Run = Callable[..., tuple[Result, SavedRun]]


@pytest.fixture
def run(bench: Bench) -> Run:
    """Run a program of tests/programs and return the result with what was saved."""

    def go(program: str, *strikes: Strike, **values: Any) -> tuple[Result, SavedRun]:
        on = values.pop("on", bench)
        result = on.run(Request(plan_of(program, *strikes, **values), programs=PROGRAMS))
        return result, load_run(result.folder)

    return go


@pytest.fixture(scope="session")
def once(bench: Bench) -> Run:
    """Run a program of tests/programs once a session: tests that read a run of the same plan share it."""
    made: dict[str, tuple[Result, SavedRun]] = {}

    def go(program: str, *strikes: Strike, **values: Any) -> tuple[Result, SavedRun]:
        plan = plan_of(program, *strikes, **values)
        key = plan.dumps()
        if key not in made:
            result = bench.run(Request(plan, programs=PROGRAMS))
            made[key] = result, load_run(result.folder)
        return made[key]

    return go
