"""A whole run prints the time of each folder's tests, also if several workers ran them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import folder_times
from support.ground import LEAN


def report(nodeid: str, when: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, when, duration=seconds)


def test_a_test_takes_its_setup_its_call_and_its_teardown():
    reports = [report("tests/a/test_x.py::test_it", when, 1.0) for when in ("setup", "call", "teardown")]
    reports += [report(f"tests/a/b/test_x.py::TestAll::test_it[{n}/2]", "call", 2.0) for n in (1, 2)]
    assert folder_times.rows(reports) == [("tests/a/b", 2, 4.0), ("tests/a", 1, 3.0)]


@pytest.fixture
def two_folders(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(folder_times.__file__).parents[1]))
    pytester.makepyfile(conftest="pytest_plugins = ['support.folder_times']")
    for folder in ("one", "two"):
        pytester.mkdir(folder)
        (pytester.path / folder / f"test_{folder}.py").write_text("def test_it():\n    pass\n")
    return pytester


def test_several_workers_give_one_table(two_folders):
    printed = two_folders.runpytest_subprocess(*LEAN, "-n", "1").stdout.str()
    assert printed.count("= time by folder =") == 1
    assert len(re.findall(r"^ +\d+\.\d s +\d+\.\d% +1 tests  (?:one|two)$", printed, re.MULTILINE)) == 2, printed
    assert re.search(r"^ +\d+\.\d s +100\.0% +2 tests  all$", printed, re.MULTILINE)


def test_one_folder_alone_gets_no_table(two_folders):
    assert "time by folder" in two_folders.runpytest_inprocess().stdout.str()
    assert "time by folder" not in two_folders.runpytest_inprocess("one").stdout.str()
