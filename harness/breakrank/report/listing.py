"""The list of scenarios: a line for each below its family, or its cases with their records, or all of it as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from breakrank import doctor
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.scenario import Case, Scenario
from breakrank.report.answers import dumped
from breakrank.report.layout import cells, pad, shorten, wrapped
from breakrank.verdict import Record
from breakrank_agent.protocol.trigger import PlanError

#: Cases that were selected, each with its scenario.
Selected = Sequence[tuple[Scenario, Case]]
#: The widest that a line gets.
MOST_WIDE = 100
_NO_FAMILY = "without a strike"


def scenario_list(selected: Selected, width: int, cases: bool = False) -> str:
    """Return the list as text, at most `width` cells wide: a line a scenario below its family, or its `cases` as well.

    A family is a name that scenarios are selected by, too. Cases that cannot be run here are counted, by the reason.
    """
    if not selected:
        return "there are no scenarios\n"
    width = min(width, MOST_WIDE)
    lacks = {(s.name, case.name): lack_of(s, case) for s, case in selected}
    names = max(cells(scenario.name) for scenario, _ in selected)
    lines: list[str] = []
    for family, scenarios in _families(selected).items():
        lines.append(family)
        for scenario in scenarios:
            own = [case for s, case in selected if s is scenario]
            head = f"  {pad(scenario.name, names)}  {len(own):>3}  {scenario.summary or 'no summary'}"
            lines.append(shorten(head, width))
            lines += _cases(scenario, own, lacks, width) if cases else []
    return "\n".join([*lines, *_ending(selected, lacks, width, cases)]) + "\n"


def _families(selected: Selected) -> Mapping[str, list[Scenario]]:
    """Return the scenarios by family, those of no family last."""
    found: dict[str, dict[str, Scenario]] = {}
    for scenario, _ in sorted(selected, key=lambda pair: (not pair[0].family, pair[0].family, pair[0].name)):
        found.setdefault(scenario.family or _NO_FAMILY, {})[scenario.name] = scenario
    return {family: list(scenarios.values()) for family, scenarios in found.items()}


def _cases(
    scenario: Scenario, cases: Sequence[Case], lacks: Mapping[tuple[str, str], str], width: int
) -> Iterator[str]:
    """Yield the lines of the cases of a scenario: name and record."""
    names = min(max(cells(case.name) for case in cases), width // 2)
    for case in cases:
        absent = " (not here)" if lacks[scenario.name, case.name] else ""
        yield from wrapped(f"      {pad(case.name, names)}  {case.words()}{absent}", width, hang=names + 2)


def _ending(selected: Selected, lacks: Mapping[tuple[str, str], str], width: int, cases: bool) -> Iterator[str]:
    """Yield how many cases there are, how many of them cannot be run here and why, and how to see more."""
    scenarios = len({scenario.name for scenario, _ in selected})
    yield ""
    more = "" if cases else "; -v lists them"
    yield f"{counted(len(selected), 'case')} of {counted(scenarios, 'scenario')}{more}"
    for lack, count in Counter(filter(None, lacks.values())).most_common():
        yield from wrapped(f"{counted(count, 'case')} cannot be run here: {lack}", width)


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 case`, `2 cases`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lack_of(scenario: Scenario, case: Case) -> str:
    """Return what this machine lacks for a case, with the cure, or the empty string."""
    try:
        plan = make_plan(scenario, case, Choices())
        return doctor.missing_framework(case.framework) or doctor.missing_for(plan, case.needs)
    except (BreakrankError, PlanError) as error:
        return " ".join(str(error).split()).removeprefix(f"{scenario.name}, case {case.name}: ")


def list_json(selected: Selected) -> str:
    """Return the list as JSON, of the form that the schema `list` describes."""
    scenarios = {scenario.name: scenario for scenario, _ in selected}
    return dumped({"version": 1, "scenarios": list(map(_scenario, scenarios.values(), _by(selected)))})


def _by(selected: Selected) -> Iterable[list[Case]]:
    """Return the selected cases of each scenario, in order."""
    found: dict[str, list[Case]] = {}
    for scenario, case in selected:
        found.setdefault(scenario.name, []).append(case)
    return found.values()


def _scenario(scenario: Scenario, cases: Sequence[Case]) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "family": scenario.family,
        "summary": scenario.summary,
        "path": str(scenario.path),
        "oracles": list(scenario.oracles),
        "cases": [_case(scenario, case) for case in cases],
    }


def _case(scenario: Scenario, case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "id": f"{scenario.name}::{case.name}",
        "program": case.program,
        "control": case.control,
        "framework": case.framework,
        "ranks": scenario.job.ranks if case.ranks is None else case.ranks,
        "needs": list(case.needs),
        "lacks": lack_of(scenario, case),
        "record": _record(case.expect),
        "by_runner": {name: _record(record) for name, record in case.on.items()},
        "by_ranks": {str(ranks): _record(record) for ranks, record in case.at.items()},
    }


def _record(record: Record) -> dict[str, Any]:
    return {
        "outcome": str(record.outcome),
        "oracle": record.oracle,
        "cause": record.cause,
        "rank": record.rank,
        "step": record.step,
    }
