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


#: About how many seconds a case takes, where it takes long: it waits for a limit, or its ranks start cold. Others of
#: torch take about 1, of TensorFlow 3.
SECONDS = {
    "accumulated_in_half::tf-gradients": 7,
    "fork_after_threads::torch-forking-after-threads": 9,
    "grpc_proxy::tf-through": 9,
    "hanging_disk::tf-in-the-loop": 15,
    "hanging_disk::torch-in-the-loop": 11,
    "hash_order::tf-sharing-by-hash": 6,
    "ipv6_first::tf-first-address": 7,
    "ipv6_first::torch-first-address": 6,
    "other_library::tf-scaled-by-the-host": 11,
    "other_library::torch-scaled-by-the-host": 7,
    "other_locale::tf-ignoring": 9,
    "other_locale::torch-ignoring": 7,
    "oversized_dataset::tf-shuffled-whole": 12,
    "parameter_server::tf-stopped-worker": 12,
    "port_in_use::torch-taken": 6,
    "rotated_away::tf-clearing": 6,
    "spinning_rank::tf-plain": 8,
    "spinning_rank::torch-by-hand": 6,
    "spinning_rank::torch-limited": 9,
    "street_absent_class::torch-weighing-all": 7,
    "street_batch_of_one::tf-left-over": 22,
    "street_label_ids::tf-one-hot": 14,
    "street_leaky_head::torch-keeping": 9,
    "street_resized_masks::tf-blending": 17,
    "street_truncated_image::tf-ignoring-errors": 13,
    "wrong_address::torch-own-interface": 7,
    "wrong_address::torch-own-name": 8,
}


def shows(scenario: Scenario, case: Case) -> set[tuple[object, ...]]:
    """Return all that a case shows of the catalogue.

    That is its scenario; its finding; its outcome, the oracle that found it and its program, in its framework; each
    fault on broken programs, on sound ones and in its framework; the schedule, and what the case needs of the machine.
    """
    framework, record = case.framework, case.expect
    shown: set[tuple[object, ...]] = {
        ("scenario", scenario.name),
        ("outcome", framework, case.sound, record.outcome),
        ("finding", record.oracle, record.cause),
        ("oracle", framework, record.oracle),
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


def _seconds(scenario: Scenario, case: Case) -> float:
    return SECONDS.get(f"{scenario.name}::{case.name}", 3 if case.framework == "tensorflow" else 1)


def _quick(cases: Sequence[tuple[Scenario, Case]]) -> list[tuple[Scenario, Case]]:
    """Return cases that show together all that the given ones show.

    At each step the one is chosen that adds most for its time. In the end those go, the slowest first, that show
    nothing which no other one shows.
    """
    left, chosen = {number: shows(*both) for number, both in enumerate(cases)}, {}
    missing = set().union(*left.values())
    while missing:
        best = max(left, key=lambda number: len(left[number] & missing) / _seconds(*cases[number]))
        chosen[best] = left.pop(best)
        missing -= chosen[best]
    for number in sorted(chosen, key=lambda one: _seconds(*cases[one]), reverse=True):
        if chosen[number] <= set().union(*(shown for other, shown in chosen.items() if other != number)):
            del chosen[number]
    return [both for number, both in enumerate(cases) if number in chosen]


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
