"""`breakrank runs`: the run directories of a folder, whatever lies in them."""

from __future__ import annotations

import json
import os

import pytest

from breakrank.__main__ import main
from breakrank.runs.listing import find_run
from breakrank.runs.retention import hold

FOUND = [{"oracle": "race", "cause": "lost update"}]


@pytest.fixture
def runs(tmp_path):
    """Return a folder with runs of each kind, the later the higher their number, beside what is none."""
    laid(tmp_path, 1, {"outcome": "SURVIVED", "as_recorded": True, "seconds": 0.5, "digest": "d"})
    laid(tmp_path, 2, {"outcome": "SILENT", "as_recorded": False, "findings": FOUND, "sentence": "\x1b[31mlost\n"})
    laid(tmp_path, 3, None)
    (laid(tmp_path, 4, None) / "plan.json").write_text("[")
    os.utime(tmp_path / "racy-one-s0-0004", (4, 4))
    (tmp_path / "controls" / "abc").mkdir(parents=True)
    (tmp_path / "racy-one-s0-0005").symlink_to(tmp_path / "racy-one-s0-0001")
    return tmp_path


def laid(runs, number, verdict):
    folder = runs / f"racy-one-s0-{number:04d}"
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({"scenario": "racy", "case": "one", "seed": 7}))
    if verdict is not None:
        (folder / "verdict.json").write_text(json.dumps(verdict))
    for path in folder.iterdir():
        os.utime(path, (number, number))
    return folder


def asked(capsys, *arguments):
    assert main(["runs", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_newest_comes_first_and_each_says_what_it_is(runs, capsys):
    held = hold(runs / "racy-one-s0-0003")
    lines = asked(capsys, "--runs", runs).splitlines()
    os.close(held)
    assert [line.split()[2:] for line in lines] == [
        ["damaged", "racy-one-s0-0004"],
        ["running", "racy-one-s0-0003"],
        ["!", "SILENT", "racy-one-s0-0002"],
        ["\\x1b[31mlost\\n"],
        ["SURVIVED", "racy-one-s0-0001"],
    ]
    assert "cut short racy-one-s0-0003" in asked(capsys, "--runs", runs)


def test_those_that_went_wrong_are_shown_alone(runs, capsys):
    assert "0001" not in asked(capsys, "--failed", "--runs", runs)
    (one,) = json.loads(asked(capsys, "--failed", "--json", "--runs", runs))
    assert (one["name"], one["finding"], one["seed"]) == ("racy-one-s0-0002", "race: lost update", 7)
    assert one["folder"] == str(runs / "racy-one-s0-0002")


@pytest.mark.parametrize(
    ("verdict", "failed"),
    [
        ({"outcome": "SURVIVED", "as_recorded": True, "record": None}, False),
        ({"outcome": "SILENT", "as_recorded": False, "record": None}, True),
        # One of a version that did not say so is looked at, rather than passed over.
        ({"outcome": "SILENT"}, True),
        ({}, False),
        (None, False),
    ],
)
def test_a_run_without_a_name_is_the_latest_of_those_that_are_listed_as_failed(tmp_path, capsys, verdict, failed):
    laid(tmp_path, 1, {"outcome": "HUNG", "as_recorded": False})
    laid(tmp_path, 2, verdict)
    wrong = [one["name"] for one in json.loads(asked(capsys, "--failed", "--json", "--runs", tmp_path))]
    assert ("racy-one-s0-0002" in wrong) == failed
    assert find_run("", tmp_path) == tmp_path / wrong[0]


def test_an_empty_folder_is_said_and_one_that_is_not_there_is_an_error(tmp_path, capsys):
    assert asked(capsys, "--runs", tmp_path) == f"there is no run in {tmp_path}\n"
    assert asked(capsys, "--failed", "--runs", tmp_path) == f"no run in {tmp_path} went wrong\n"
    assert main(["runs", "--runs", str(tmp_path / "nowhere")]) == 4
    assert "there is no folder" in capsys.readouterr().err
