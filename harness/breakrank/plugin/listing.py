"""Answers in text, without collecting anything: the list of scenarios, and the doctor."""

from __future__ import annotations

import sys

import pytest

from breakrank.plugin import options


def show_text(config: pytest.Config) -> int:
    """Write the text that was asked for, and return the exit code 0."""
    sys.stdout.write(_doctor() if options.wants_doctor(config) else _list(config))
    return 0


def _doctor() -> str:
    from breakrank.doctor import report

    return report()


def _list(config: pytest.Config) -> str:
    from breakrank.plan.catalogue import load_scenarios
    from breakrank.report.terminal import scenario_table

    return scenario_table(load_scenarios(options.scenario_paths(config)).values())
