"""Sixty seeds and a hundred replays of what `tests/e2e` tries a few times: threads, ranks, works and files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

SEEDS = 60


def load(name: str):
    """Return a module of the shorter tests."""
    spec = importlib.util.spec_from_file_location(f"{name}_e2e", Path(__file__).parents[1] / "e2e" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


races, paths = load("test_races"), load("test_paths")


@pytest.mark.parametrize("module", races.MODULES)
@pytest.mark.parametrize("seed", range(len(races.SEEDS), SEEDS))
def test_what_races_is_flagged_and_what_does_not_is_not(run, module, seed):
    races.test_what_races_is_flagged_at_each_seed(run, module, seed)
    races.test_what_does_not_race_is_flagged_at_no_seed(run, module, seed)


@pytest.mark.parametrize("seed", range(len(paths.SEEDS), SEEDS))
def test_unordered_files_are_flagged_and_ordered_ones_are_not(run, seed):
    paths.test_what_races_is_flagged_at_each_seed(run, seed)
    paths.test_what_is_ordered_is_flagged_at_no_seed(run, seed)


@pytest.mark.parametrize(("module", "program"), [("threads", "count_unlocked"), ("ranks", "racy")])
def test_a_hundred_replays_are_the_saved_run(bench, run, monkeypatch, module, program):
    monkeypatch.setattr(races, "REPLAYS", 100)
    races.test_a_saved_run_is_replayed_with_the_same_value_and_digest(bench, run, module, program)
