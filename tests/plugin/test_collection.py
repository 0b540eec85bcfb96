"""Scenarios are collected as items, and pytest's own ways of choosing work on them."""

from __future__ import annotations

import xml.etree.ElementTree

import pytest


def ids(result):
    return [line for line in result.outlines if "::" in line and " " not in line]


@pytest.fixture
def with_own_tests(project):
    project.pytester.makeini("[pytest]\nscenario_paths = mine\ntestpaths = checks\n")
    project.file("checks/test_mine.py", "print('read')\ndef test_mine(): pass")
    return project


def test_with_a_scenario_and_no_path_only_scenarios_are_collected(with_own_tests):
    result = with_own_tests.pytest("--scenario=racy", "--collect-only", "-q")
    assert ids(result) == ["racy::broken", "racy::sound"]


def test_with_a_path_both_are_collected(with_own_tests):
    result = with_own_tests.pytest("--scenario=racy", "--collect-only", "-q", "checks")
    assert ids(result) == ["checks/test_mine.py::test_mine", "racy::broken", "racy::sound"]


def test_without_a_scenario_nothing_changes(with_own_tests):
    result = with_own_tests.pytest("--collect-only", "-q")
    assert ids(result) == ["checks/test_mine.py::test_mine"]


def test_ids_do_not_depend_on_the_folder(with_own_tests, monkeypatch):
    monkeypatch.chdir(with_own_tests.path / "checks")
    assert ids(with_own_tests.pytest("--scenario=racy", "--collect-only", "-q")) == ["racy::broken", "racy::sound"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["all", "--scenario=racy"], ["alpha::a", "racy::broken", "racy::sound"]),
        (["racy,alpha"], ["alpha::a", "racy::broken", "racy::sound"]),
        (["sync"], ["racy::broken", "racy::sound"]),
        (["r*"], ["racy::broken", "racy::sound"]),
        (["racy::b*"], ["racy::broken"]),
    ],
)
def test_names_globs_families_and_all_select(project, names, expected):
    project.scenario("alpha", "Case('a', 'fake:sound', SURVIVED)", more="family='memory'")
    found = ids(project.pytest(f"--scenario={names[0]}", *names[1:], "--collect-only", "-q"))
    assert [i for i in found if i.startswith(("alpha", "racy"))] == expected


@pytest.mark.parametrize(
    "arguments", [["-k", "sound"], ["--deselect", "racy::broken"], ["-m", "scenario", "-k", "sound"]]
)
def test_pytest_chooses_among_the_items(project, arguments):
    project.pytest("--scenario=racy", *arguments).assert_outcomes(passed=1, deselected=1)


def test_a_framework_selects_its_cases(project):
    project.scenario(
        "two", "Case('t', 'fake:sound', SURVIVED), Case('f', 'fake:sound', SURVIVED, framework='tensorflow')"
    )
    assert ids(project.pytest("--scenario=two", "--scenario-framework=torch", "--collect-only", "-q")) == ["two::t"]


def test_a_case_that_the_machine_cannot_run_is_skipped_with_the_reason(project):
    project.scenario(
        "needy", "Case('a', 'fake:sound', SURVIVED, needs=('gpus>=9',)), Case('b', 'fake:sound', SURVIVED)"
    )
    result = project.pytest("--scenario=needy", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs gpus>=9: this machine has * NVIDIA GPUs*"])
    result.stdout.fnmatch_lines(["1 as recorded, 0 changed, 1 not tested"])


def test_a_case_whose_framework_is_missing_is_skipped_with_the_cure(project):
    project.scenario("half", "Case('a', 'fake:sound', SURVIVED, framework='nosuch'), Case('b', 'fake:sound', SURVIVED)")
    result = project.pytest("--scenario=half", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*nosuch is not installed for this interpreter*pip install nosuch"])


def test_last_failed_runs_only_what_failed(project):
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED), Case('good', 'fake:sound', SURVIVED)")
    project.pytest("--scenario=changed").assert_outcomes(passed=1, failed=1)
    project.pytest("--scenario=changed", "--lf").assert_outcomes(failed=1)


def test_exitfirst_stops_after_the_first_failure(project):
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED), Case('good', 'fake:sound', SURVIVED)")
    project.pytest("--scenario=changed", "-x").assert_outcomes(failed=1)


def test_workers_of_xdist_collect_the_same_and_share_the_seed(project):
    pytest.importorskip("xdist")
    result = project.pytest_process("--scenario=racy", "--scenario-seed=7", "-n2", "--junitxml=out.xml")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*seed 7*", "SILENT *racy::broken*", "SURVIVED *racy::sound*", "2 as recorded, 0 changed*"]
    )
    assert {case["seed"] for case in properties(project.path / "out.xml")} == {"7"}


def test_workers_of_xdist_collect_exclusively_as_their_controller_does(with_own_tests):
    pytest.importorskip("xdist")
    with_own_tests.pytest_process("--scenario=racy", "-n2").assert_outcomes(passed=2)
    with_own_tests.pytest_process("--scenario=racy", "-n2", "checks").assert_outcomes(passed=3)


def test_a_worker_of_xdist_tells_its_bench_who_the_controller_is(project):
    pytest.importorskip("xdist")
    project.pytest_process("--scenario=racy", "-n1")
    (bench,) = (project.path / ".breakrank").glob("bench-of-*")
    assert bench.name != "bench-of-None"


def test_it_works_without_xdist(project):
    project.pytest_process("--scenario=racy", "-p", "no:xdist").assert_outcomes(passed=2)


def properties(path):
    """Return the properties of each test case in a JUnit file."""
    root = xml.etree.ElementTree.parse(path).getroot()
    return [{p.get("name"): p.get("value") for p in case.iter("property")} for case in root.iter("testcase")]


def test_the_verdict_lands_in_junit(project):
    project.pytest("--scenario=racy", "--junitxml=out.xml")
    broken = properties(project.path / "out.xml")[0]
    assert broken["outcome"] == "SILENT" and broken["as_recorded"] == "true" and broken["seed"] == "0"
    assert broken["recorded"] == "SILENT (race, lost update)" and broken["blame"].startswith("rank 1")
    assert "1 of 2 updates arrived" in broken["sentence"] and broken["digest"]
    assert broken["run_directory"].endswith("racy-broken-0000")
