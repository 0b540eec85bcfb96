"""The catalogue's cases for the tests that run them: all, those that cover them, and of these the quick ones."""

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


def shows(scenario: Scenario, case: Case) -> set[tuple[object, ...]]:
    """Return all that a case shows of the catalogue.

    That is its scenario, and that one broken; its outcome, its finding and its program, in its framework; each fault on
    broken programs, on sound ones and in its framework; the schedule, and what the case needs of the machine.
    """
    framework, record = case.framework, case.expect
    shown: set[tuple[object, ...]] = {
        (scenario.name,),
        (scenario.name, "broken") if not case.sound else (scenario.name,),
        ("outcome", framework, case.sound, record.outcome),
        ("finding", framework, record.oracle, record.cause),
        ("program", framework, case.program.partition(":")[0]),
        ("schedule", framework, scenario.schedule.mode, scenario.schedule.policy),
    }
    for strike in scenario.strikes if case.strikes is None else case.strikes:
        name = strike.fault.name()
        shown |= {("fault", name, case.sound), ("fault", name, framework), ("point", framework, strike.trigger.point)}
    return shown | {("need", need) for need in case.needs}


def of_cluster(both: tuple[Scenario, Case]) -> bool:
    """Return whether a case strikes a cluster: `tests/soak/test_slurm_faults.py` has one for itself, and runs it."""
    scenario, case = both
    return any(strike.fault.clustered for strike in (scenario.strikes if case.strikes is None else case.strikes))


def _quick(cases: Sequence[tuple[Scenario, Case]]) -> list[tuple[Scenario, Case]]:
    """Return cases that show together all that the given ones show: at each step the one that adds most for its time.

    A case of TensorFlow takes six times as long as one of torch.
    """
    left, chosen = list(cases), []
    missing = set().union(*(shows(*both) for both in cases))
    while missing:
        best = max(left, key=lambda both: len(shows(*both) & missing) / (6 if both[1].framework == "tensorflow" else 1))
        left.remove(best)
        chosen.append(best)
        missing -= shows(*best)
    return [both for both in cases if both in chosen]


COVERING = _covering()
#: Those of them that `make test` runs; `make soak` and `make conformance` run all.
QUICK = _quick(COVERING)
REST = [both for both in CASES if both not in COVERING and not of_cluster(both)]


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
