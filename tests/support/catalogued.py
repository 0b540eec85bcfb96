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
from breakrank.verdict import Outcome

SCENARIOS = load_scenarios()
CASES = [(scenario, case) for scenario in SCENARIOS.values() for case in scenario.cases]


def _covering() -> list[tuple[Scenario, Case]]:
    """Return the cases that show each scenario broken and sound.

    Of torch it is the first case of each outcome that is on record, of TensorFlow the first broken case. The sound twin
    of a broken case without strikes runs as its control.
    """
    return [
        (scenario, case)
        for scenario in SCENARIOS.values()
        for case in scenario.cases
        if case in (*_of_torch(scenario), *_of_tensorflow(scenario))
    ]


def _of_torch(scenario: Scenario) -> list[Case]:
    first: dict[tuple[bool, Outcome], Case] = {}
    for case in scenario.cases:
        if case.framework != "tensorflow":
            first.setdefault((case.sound, case.expect.outcome), case)
    return list(first.values())


def _of_tensorflow(scenario: Scenario) -> list[Case]:
    cases = [case for case in scenario.cases if case.framework == "tensorflow"]
    broken, sound = ([case for case in cases if case.sound is is_sound][:1] for is_sound in (False, True))
    if scenario.name != "baseline" and len(cases) < len(scenario.cases):
        return broken
    return broken if broken and broken[0].control else broken + sound


COVERING = _covering()
REST = [both for both in CASES if both not in COVERING]


def names(cases: Sequence[tuple[Scenario, Case]]) -> list[str]:
    """Return the names of cases."""
    return [f"{scenario.name}::{case.name}" for scenario, case in cases]


def assert_as_recorded(bench: Bench, scenario: Scenario, case: Case, ranks: int | None = None) -> None:
    """Assert that a case comes out as recorded; skip it, with the reason, where this machine cannot run it.

    `ranks` is another number of ranks than the case's own.
    """
    plan = make_plan(scenario, case, Choices(ranks=ranks))
    needs = [*case.needs, *(need for strike in plan.strikes for need in strike.fault.needs)]
    lack = missing_framework(case.framework) or missing(needs)
    if lack:
        pytest.skip(lack)
    result = bench.run(Request(plan, case.record(plan.runner, plan.ranks)))
    assert result.as_recorded, f"{result.verdict.outcome}: {result.verdict.sentence()} ({result.folder})"
