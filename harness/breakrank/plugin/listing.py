"""Answers in text, without collecting anything: the list of scenarios, and the doctor."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Sequence

import pytest

from breakrank.errors import BreakrankError
from breakrank.plan.scenario import Case, Scenario
from breakrank.plugin import options
from breakrank.plugin.command_line import PREFIX

#: The forms that the list has.
FORMS = ("text", "json")


def show_text(config: pytest.Config) -> int:
    """Write the text that was asked for, and return the exit code 0. Raises `BreakrankError`."""
    sys.stdout.write(_doctor() if options.wants_doctor(config) else _list(config))
    return 0


def _doctor() -> str:
    from breakrank.doctor import report

    return report()


def _list(config: pytest.Config) -> str:
    from breakrank.plan.catalogue import ALL, load_scenarios, select
    from breakrank.report.listing import list_json, scenario_list

    form = options.form_of_list(config)
    if form not in FORMS:
        near = difflib.get_close_matches(form, FORMS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {' or '.join(FORMS)}"
        raise BreakrankError(f"{PREFIX}-list is {form!r}; {hint}")
    scenarios = load_scenarios(options.scenario_paths(config))
    wanted = _by_keyword(select(scenarios, options.names(config) or (ALL,)), str(config.option.keyword or ""))
    if form == "json":
        return list_json(wanted)
    if scenarios and not wanted:
        return "no case is selected\n"
    return scenario_list(wanted, shutil.get_terminal_size().columns, config.option.verbose > 0)


def _by_keyword(chosen: Sequence[tuple[Scenario, Case]], keyword: str) -> list[tuple[Scenario, Case]]:
    """Return the cases that pytest's `-k` would leave. Raises `pytest.UsageError` for an expression that is none."""
    from _pytest.mark.expression import Expression

    if not keyword.strip():
        return list(chosen)
    try:
        expression = Expression.compile(keyword)
    except SyntaxError as error:
        raise pytest.UsageError(f"Wrong expression passed to '-k': {keyword}: {error}") from None

    def matches(scenario: Scenario, case: Case) -> bool:
        # The names that pytest looks in: those of the nodes, and the marker of our items.
        names = [name.lower() for name in (scenario.name, case.name, "scenario")]
        return expression.evaluate(lambda word, /, **_: any(word.lower() in name for name in names))

    return [(scenario, case) for scenario, case in chosen if matches(scenario, case)]
