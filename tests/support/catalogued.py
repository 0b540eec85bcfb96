"""The catalogue's cases for the tests that run them: all, and those that cover them in `make test`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from breakrank.doctor import missing, missing_framework
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios
from breakrank.plan.scenario import Case, Scenario
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request

SCENARIOS = load_scenarios()
CASES = [(scenario, case) for scenario in SCENARIOS.values() for case in scenario.cases]


def _covering() -> list[tuple[Scenario, Case]]:
    """Return every case of torch and, of TensorFlow, the first broken one of each scenario, or the first if none is.

    The sound twin of a broken case without strikes runs as its control.
    """
    chosen = []
    for scenario in SCENARIOS.values():
        others = [case for case in scenario.cases if case.framework == "tensorflow"]
        first = sorted(others, key=lambda case: case.sound)[:1]
        chosen += [(scenario, case) for case in scenario.cases if case not in others or case in first]
    return chosen


COVERING = _covering()
REST = [both for both in CASES if both not in COVERING]


def names(cases: Sequence[tuple[Scenario, Case]]) -> list[str]:
    """Return what cases are called."""
    return [f"{scenario.name}::{case.name}" for scenario, case in cases]


def check(bench: Bench, scenario: Scenario, case: Case) -> None:
    """Assert that a case comes out as recorded; skip it, with the reason, where this machine cannot run it."""
    plan = make_plan(scenario, case, Choices())
    needs = [*case.needs, *(need for strike in plan.strikes for need in strike.fault.needs)]
    lack = missing_framework(case.framework) or missing(needs)
    if lack:
        pytest.skip(lack)
    result = bench.run(Request(plan, case.record(plan.runner)))
    assert result.as_recorded, f"{result.verdict.outcome}: {result.verdict.sentence()} ({result.folder})"
