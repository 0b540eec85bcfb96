"""Sixty seeds and a hundred replays of what `tests/e2e/test_races.py` tries ten and twenty times."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

_spec = importlib.util.spec_from_file_location("races_e2e", Path(__file__).parents[1] / "e2e" / "test_races.py")
assert _spec is not None and _spec.loader is not None
races = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(races)


@pytest.mark.parametrize("module", races.MODULES)
@pytest.mark.parametrize("seed", range(len(races.SEEDS), 60))
def test_what_races_is_flagged_and_what_does_not_is_not(run, module, seed):
    races.test_what_races_is_flagged_at_each_seed(run, module, seed)
    races.test_what_does_not_race_is_flagged_at_no_seed(run, module, seed)


@pytest.mark.parametrize(("module", "program"), [("threads", "count_unlocked"), ("ranks", "racy")])
def test_a_hundred_replays_are_the_saved_run(bench, run, monkeypatch, module, program):
    monkeypatch.setattr(races, "REPLAYS", 100)
    races.test_a_saved_run_is_replayed_with_the_same_value_and_digest(bench, run, module, program)
