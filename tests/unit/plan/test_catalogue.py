"""The catalogue finds, checks and selects scenarios."""

from __future__ import annotations

import sys

import pytest

from breakrank.errors import BreakrankError
from breakrank.plan.catalogue import load_scenario, load_scenarios, packaged_folder, select
from breakrank.plan.scenario import DEFAULT_ORACLES, Case, Scenario
from breakrank.verdict import SURVIVED

HEAD = "from breakrank import *\n"


def write(folder, name, text, head=HEAD):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(head + text)
    return path


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """Return two scenarios as if they were the packaged ones."""
    folder = tmp_path / "ours"
    monkeypatch.setattr("breakrank.plan.catalogue.packaged_folder", lambda: folder)
    write(
        folder,
        "beta",
        "SCENARIO = Scenario(family='sync', cases=[Case('b', 'x:y', SURVIVED), Case('a', 'x:z', SILENT)])",
    )
    write(
        folder, "alpha", "SCENARIO = Scenario(cases=[Case('a', 'x:y', SURVIVED)], strikes=[faults.Kill() @ at(0, 1)])"
    )
    write(folder, "_private", "raise SystemExit")
    return folder


def names(pairs):
    return [f"{scenario.name}::{case.name}" for scenario, case in pairs]


def test_every_scenario_of_ours_can_be_loaded():
    assert packaged_folder().is_dir()
    load_scenarios()


def test_name_summary_path_and_family_come_from_the_file(tmp_path):
    text = "SCENARIO = Scenario(cases=[Case('a', 'x:y', SURVIVED)], strikes=[faults.Kill() @ at(0, 1)])"
    path = write(tmp_path, "killed", text, head='"""A rank dies.\n\nMore."""\n' + HEAD)
    scenario = load_scenario(path)
    assert (scenario.name, scenario.summary, scenario.path, scenario.family) == (
        "killed",
        "A rank dies.",
        path,
        "process",
    )


def test_a_family_that_the_scenario_names_is_kept(ours):
    assert load_scenarios()["beta"].family == "sync"


def test_folders_of_the_user_are_added_and_their_private_files_are_not_read(ours, tmp_path):
    write(tmp_path / "mine", "gamma", "SCENARIO = Scenario(cases=[Case('a', 'x:y', SURVIVED)])")
    assert list(load_scenarios([tmp_path / "mine"])) == ["alpha", "beta", "gamma"]


def test_naming_our_own_folder_again_changes_nothing(ours):
    assert list(load_scenarios([ours.parent / "ours" / ".." / "ours"])) == ["alpha", "beta"]


def test_one_name_in_two_folders_is_refused(ours, tmp_path):
    write(tmp_path / "mine", "alpha", "SCENARIO = Scenario(cases=[Case('a', 'x:y', SURVIVED)])")
    with pytest.raises(BreakrankError, match="are both called 'alpha'; rename"):
        load_scenarios([tmp_path / "mine"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1\nx.y\n", r"line 3: AttributeError: 'int' object has no attribute 'y'"),
        ("def f(:\n", r"line 2: SyntaxError"),
        ("def f():\n    raise KeyError('a\\nb')\nf()\n", r"line 3: KeyError"),
        ("import sys\nsys.exit(3)\n", r"line 3: SystemExit: 3"),
        (
            "SCENARIO = Scenario(cases=[Case('a', 'x', SURVIVED), Case('a', 'x', SURVIVED)])",
            r"line \d+: two cases are called 'a'",
        ),
        ("", r"defines no SCENARIO"),
        ("SCENARIO = 3", r"has a int as SCENARIO"),
        ("SCENARIO = Scenario(cases=[])", r"has no cases"),
    ],
)
def test_a_broken_file_is_one_line_with_file_line_and_error(tmp_path, text, complaint):
    path = write(tmp_path, "torn", text)
    with pytest.raises(BreakrankError, match=complaint) as caught:
        load_scenario(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_loading_leaves_no_trace_in_the_folder(tmp_path):
    path = write(tmp_path, "clean", "SCENARIO = Scenario(cases=[Case('a', 'x:y', SURVIVED)])")
    load_scenario(path)
    assert list(tmp_path.iterdir()) == [path]
    assert "clean" not in sys.modules


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["alpha"], ["alpha::a"]),
        (["all"], ["alpha::a", "beta::b", "beta::a"]),
        (["beta", "all", "beta"], ["alpha::a", "beta::b", "beta::a"]),
        (["sync"], ["beta::b", "beta::a"]),
        (["process"], ["alpha::a"]),
        (["*eta"], ["beta::b", "beta::a"]),
        (["beta::a"], ["beta::a"]),
        (["*::a"], ["alpha::a", "beta::a"]),
    ],
)
def test_selection_is_sorted_by_scenario_and_unique(ours, wanted, expected):
    assert names(select(load_scenarios(), wanted)) == expected


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("alhpa", "unknown scenario 'alhpa'; did you mean alpha"),
        ("snyc", "did you mean sync"),
        ("zzzzzz", "known are alpha, beta, process, sync"),
        ("q*", "unknown scenario 'q\\*'"),
        ("beta::c", "scenario 'beta' has no case 'c'; cases are b, a"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(ours, wanted, complaint):
    with pytest.raises(BreakrankError, match=complaint):
        select(load_scenarios(), [wanted])


@pytest.mark.parametrize(
    ("case", "oracles", "joins"),
    [
        (Case("a", "x:y", SURVIVED, framework="tensorflow"), DEFAULT_ORACLES, True),
        (Case("a", "x:y", SURVIVED), DEFAULT_ORACLES, False),
        # A scenario that names its oracles gets no other, and neither does a script, which is no program of ours.
        (Case("a", "x:y", SURVIVED, framework="tensorflow"), ("ends", "control"), False),
        (Case("a", "", SURVIVED, framework="tensorflow"), DEFAULT_ORACLES, False),
    ],
    ids=["tensorflow", "torch", "named", "script"],
)
def test_what_judges_placement_joins_the_default_oracles_of_programs_of_tensorflow(case, oracles, joins):
    found = Scenario([case], oracles=oracles).oracles_of(case)
    assert [name for name in found if name != "placement"] == list(oracles)
    assert ("placement" in found) is joins
