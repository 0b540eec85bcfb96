"""A control is made once for all cases whose ranks would do the same in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakrank.runs.controls import Controls
from breakrank_agent.plan import Plan

PLAN = Plan("control", "control", "averaging:plain", oracles=("control",))


@pytest.fixture
def key(tmp_path: Path) -> Any:
    """Return a function that names the control of a plan."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "averaging.py").write_text("def plain(): ...")
    controls = Controls(tmp_path, "agent", lambda *_: [])
    return lambda plan: controls._key(plan, tmp_path / "programs")


@pytest.mark.parametrize(
    "other", [{"deadline_s": 4.0}, {"patience_s": 5.0}, {"tolerance": 0.5}, {"oracles": ("control", "samples")}]
)
def test_limits_of_time_and_the_judges_make_no_other_control(key: Any, other: dict[str, Any]) -> None:
    assert key(replace(PLAN, **other)) == key(PLAN)


@pytest.mark.parametrize(
    "other",
    [{"program": "averaging:limited"}, {"steps": 7}, {"evidence": ("contents",)}, {"seed": 1}, {"runner": "sandbox"}],
)
def test_another_program_or_other_evidence_does(key: Any, other: dict[str, Any]) -> None:
    assert key(replace(PLAN, **other)) != key(PLAN)
