"""Every scenario that is discovered: it reads well, its records keep the rules, and its cases are as recorded.

`make test` runs the cases of `catalogued.QUICK`. The others of `catalogued.COVERING` are marked for the soak, which has
the rest of the catalogue, too, and those that strike a cluster.
"""

from __future__ import annotations

import pytest
from support.catalogued import (
    CASES,
    COVERING,
    QUICK,
    SCENARIOS,
    SECONDS,
    assert_as_recorded,
    names,
    of_cluster,
    shows,
)
from support.lasting import soak

from breakrank.errors import BreakrankError
from breakrank.oracles import all_oracles
from breakrank.plan.build import Choices, make_plan
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent.plan import Plan

IDS = names(CASES)
RUN = [both if both in QUICK else soak(*both) for both in COVERING if not of_cluster(both)]


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
def test_it_says_what_it_is(scenario):
    assert scenario.summary.strip().endswith(".")
    assert scenario.cases and set(scenario.oracles) <= set(all_oracles())
    assert "ends" in scenario.oracles


@pytest.mark.parametrize(("scenario", "case"), CASES, ids=IDS)
def test_a_record_keeps_the_rules(scenario, case):
    struck = scenario.strikes if case.strikes is None else case.strikes
    for record in (case.expect, *case.on.values(), *case.at.values()):
        assert record.outcome is not Outcome.VOID
        if record.outcome is Outcome.SURVIVED:
            assert record.cause is None and record.oracle is None
        if record.outcome is Outcome.SILENT:
            assert record.oracle and record.cause, "a silent case is on record with its finding"
        # Neither the runner nor the number of ranks makes a program sound or broken.
        assert (record.outcome in (Outcome.SURVIVED, Outcome.DETECTED)) == case.sound
    # A broken case is compared with a sound one: a case without strikes needs a twin, or there is nothing to cure.
    assert struck or case.control or case.sound or scenario.name == "canary"


@pytest.mark.parametrize(("scenario", "case"), CASES, ids=IDS)
def test_it_runs_with_more_ranks_or_names_the_sizes_that_it_is_for(scenario, case):
    sizes = scenario.sizes_of(case)
    own = make_plan(scenario, case, Choices()).ranks
    assert not sizes or own in sizes
    # A record for another size is one that the case does not have at its own.
    assert all(size > own for size in case.at)
    for ranks in (3, 4):
        if sizes and ranks not in sizes:
            with pytest.raises(BreakrankError, match=rf"is for .* ranks?, not for {ranks}$"):
                make_plan(scenario, case, Choices(ranks=ranks))
        else:
            assert make_plan(scenario, case, Choices(ranks=ranks)).ranks == ranks


@pytest.mark.parametrize(("scenario", "case"), CASES, ids=IDS)
def test_its_plan_is_resolved_and_travels_as_json(scenario, case):
    plan = make_plan(scenario, case, Choices(seed=3))
    assert all(strike.ranks for strike in plan.strikes)
    assert Plan.loads(plan.dumps()) == plan


@pytest.mark.parametrize(("scenario", "case"), RUN, ids=names([both for both in COVERING if not of_cluster(both)]))
def test_its_case_is_as_recorded(bench, scenario, case):
    assert_as_recorded(bench, scenario, case)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
def test_a_reason_for_no_cases_is_of_a_framework_that_has_none(scenario):
    there = {case.framework for case in scenario.cases}
    assert set(scenario.without) <= {"torch", "tensorflow"} - there


def test_the_covering_cases_show_each_scenario_broken_and_sound():
    shown = {(scenario.name, case.sound) for scenario, case in COVERING}
    shown |= {(scenario.name, True) for scenario, case in COVERING if case.control}
    assert shown == {(scenario.name, case.sound) for scenario, case in CASES}
    frameworks = {(scenario.name, case.framework) for scenario, case in CASES if not case.sound}
    assert frameworks <= {(scenario.name, case.framework) for scenario, case in COVERING if not case.sound}


def test_the_quick_cases_show_all_that_the_covering_ones_show():
    shown = [set().union(*(shows(*both) for both in cases)) for cases in (QUICK, COVERING)]
    assert shown[0] == shown[1]
    assert {scenario.name for scenario, _ in QUICK} == set(SCENARIOS)


def test_the_cases_that_take_long_are_cases():
    assert set(SECONDS) <= set(IDS)


def test_twins_get_the_same_strike():
    by_program: dict[tuple[str, str], set[str]] = {}
    for scenario, case in CASES:
        struck = scenario.strikes if case.strikes is None else case.strikes
        module = case.program.split(":")[0]
        by_program.setdefault((scenario.name, module), set())
        by_program[scenario.name, module].add(str(struck))
    for (name, module), strikes in by_program.items():
        cases = [c for s, c in CASES if s.name == name and c.program.startswith(module)]
        for strike in strikes:
            group = [c for c in cases if str(SCENARIOS[name].strikes if c.strikes is None else c.strikes) == strike]
            broken = [c for c in group if not c.sound]
            assert not broken or any(c.sound for c in group) or name == "canary", f"{name}: {module} has no sound twin"


def test_the_canary_dies_when_its_oracles_are_asleep(bench):
    from dataclasses import replace

    canary = SCENARIOS["canary"]
    asleep = replace(canary, oracles=tuple(o for o in canary.oracles if o not in ("replicas", "control")))
    for case in canary.cases:
        result = bench.run(Request(make_plan(asleep, case, Choices()), case.expect))
        assert not result.as_recorded
