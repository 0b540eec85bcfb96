"""A check-up as a test: by the scenario, and in a test of one's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"

OWN = """\
def test_the_script_is_healthy(launch):
    checked = launch.check("failing.py")
    assert not checked.well and set(checked.wrong) == {"ends"}
    assert checked.sheet["memory"] == "not seen" and checked.findings == ()
    assert checked.well, checked.explain()
"""


@pytest.fixture
def folder(pytester):
    for script in SCRIPTS.glob("*.py"):
        shutil.copy(script, pytester.path)
    return pytester


def test_a_scenario_fails_with_the_sheet_if_something_is_wrong(folder):
    result = folder.runpytest_subprocess("--scenario=checkup", "--scenario-train=failing.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ends *wrong *FileNotFoundError* (failing.py:8)*", "blame: *", "again: pytest *"])


def test_a_scenario_is_skipped_if_too_little_was_seen(folder):
    result = folder.runpytest_subprocess("--scenario=checkup", "--scenario-train=idle.py", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*too little was seen: *", "0 *, 1 not tested"])


def test_a_test_of_ones_own_asks_for_the_sheet(folder):
    folder.makepyfile(OWN)
    result = folder.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ends *wrong *FileNotFoundError*", "*again: launch.check('failing.py')*"])


@pytest.mark.parametrize("option", ["restarts=1", "patience=3", "tolerance=0.1", "repeat=2", "seeds=0..2", "in-place"])
def test_an_option_that_has_no_part_in_a_checkup_is_refused_in_one_line(folder, option):
    result = folder.runpytest_inprocess("--scenario=checkup", "--scenario-train=idle.py", f"--scenario-{option}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0]
    result.stderr.fnmatch_lines([f"*a check-up runs plain processes undisturbed; leave out --scenario-{name}"])
