"""Tables of the memory: no row is wider than the terminal, and letters that it lacks are replaced."""

from __future__ import annotations

import io
import json
import sys

import pytest
from support.remembered import entry, night, remembered, session

from breakrank.__main__ import main

LONG = "overwritten_mapped_checkpoint::torch-overwriting-with-as-much"
WORDS = "rank 1 died of SIGABRT at step 3, where no Python line is known, while another thread was in train (big.py:46)"


@pytest.fixture
def runs(tmp_path):
    """Return a folder with a history of three sessions; the last one is worse in one case and better in another."""
    images = {"image": "registry.example.org/a/team/train:candidate-2026-11-30", "torch": "2.14.1+cu130"}
    sound = [entry(LONG, seconds=1.0), entry("racy::two", "HUNG", finding="ends: x", as_recorded=False)]
    worse = [entry(LONG, "CRASHED", finding="crash: killed by a signal, rank 1, step 3", sentence=WORDS, seconds=8.0)]
    again = entry(LONG, "DETECTED", seconds=4.0, digest="e")
    remembered(
        tmp_path,
        (night(1, **images), sound),
        (session(2, **images), [again]),
        (night(3, **images), [*worse, entry("racy::two"), entry("racy::three", "", sentence=WORDS * 3)]),
    )
    return tmp_path


def asked(capsys, *arguments):
    """Return the exit code and the lines of a command."""
    code = main([*map(str, arguments)])
    out, err = capsys.readouterr()
    assert not err
    return code, out.splitlines()


@pytest.mark.parametrize(
    "words", [["history"], ["history", LONG], ["history", "*"], ["flaky"], ["diff"], ["runs"]], ids=" ".join
)
def test_no_row_is_wider_than_80_columns(runs, capsys, monkeypatch, words):
    made = runs / f"{LONG.replace('::', '-')}-s0-0000"
    made.mkdir()
    (made / "plan.json").write_text(json.dumps({"scenario": "x", "case": "y", "seed": 0}))
    (made / "verdict.json").write_text(json.dumps({"outcome": "HUNG", "sentence": WORDS, "as_recorded": False}))
    monkeypatch.setenv("COLUMNS", "80")
    _, lines = asked(capsys, *words, "--runs", runs)
    assert lines and max(map(len, lines)) <= 80


def test_a_session_is_a_row_with_its_counts(runs, capsys):
    _, lines = asked(capsys, "history", "--runs", runs)
    assert lines[0].split() == ["#", "began", "(UTC)", "time", "recorded", "changed", "untested", "kind"]
    assert [line.split()[:3] for line in lines[1:]] == [[str(n), f"2026-11-0{n}", "02:00"] for n in (3, 2, 1)]
    assert [line.split()[6:10] for line in lines[1:]] == [
        ["2", "0", "1", "nightly"], ["1", "0", "0", "pytest"], ["1", "1", "0", "nightly"]
    ]  # fmt: skip


def test_a_case_is_a_row_of_letters_and_bars_and_a_row_for_each_session(runs, capsys):
    _, lines = asked(capsys, "history", LONG, "--runs", runs)
    assert lines[0] == f"SDC  ▂▅█  {LONG}"
    assert [line.split()[0] for line in lines[1:]] == ["#3", "#2", "#1"]
    _, lines = asked(capsys, "history", "racy", "--runs", runs)
    assert lines == [".  █  racy::three", "HS  ██  racy::two"]


def test_a_terminal_without_these_letters_gets_ascii(runs, capsys, monkeypatch):
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["history", LONG, "--runs", str(runs)]) == 0
    shown.flush()
    lines = shown.buffer.getvalue().decode("ascii").splitlines()
    assert lines[0] == f"SDC  .=#  {LONG}"
    assert any(line.endswith("...") for line in lines)


def test_what_got_worse_is_named_and_the_exit_code_says_so(runs, capsys):
    code, lines = asked(capsys, "diff", "--runs", runs)
    assert code == 1
    text = " ".join(" ".join(lines).split())
    assert f"worse: 1 {LONG} [kill, process]: DETECTED became CRASHED" in text
    code, lines = asked(capsys, "diff", "3", "1", "--runs", runs, "--json")
    said = json.loads("\n".join(lines))
    assert (code, said["status"], len(said["worse"]), len(said["better"])) == (1, 1, 1, 1)


def test_a_case_that_could_not_be_planned_is_the_one_that_was_tested_before(tmp_path, capsys):
    skipped = entry(mechanism="", outcome="", sentence="there is no torch")
    remembered(tmp_path, (session(1), [entry(), entry("a::b")]), (session(2), [skipped, entry("a::b")]))
    code, lines = asked(capsys, "diff", "--runs", tmp_path)
    assert code == 2
    assert "gone: 1" in lines and "not tested on either: 0" not in lines
    assert "  racy::one [kill, process]: SURVIVED, not tested now: there is no torch" in lines


def test_a_flaky_plan_is_two_rows_with_what_it_came_to(tmp_path, capsys):
    remembered(tmp_path, (session(1), [entry()]), (session(2), [entry(outcome="HUNG", digest="e")]))
    _, lines = asked(capsys, "flaky", "--runs", tmp_path)
    assert lines == [
        "SH  racy::one [kill, process]",
        "    2 runs, 2 digests: SURVIVED in 1, HUNG in 1; last in #2",
    ]
    _, lines = asked(capsys, "flaky", "--runs", tmp_path, "--json")
    assert [one["outcome"] for one in json.loads("\n".join(lines))[0]] == ["SURVIVED", "HUNG"]


def test_names_from_a_history_cannot_move_the_terminal(tmp_path, capsys):
    odd = entry("racy::\x1b[2J\nx", outcome="HUNG", finding="\x1b[31m", sentence="a\rb")
    remembered(tmp_path, (session(1), [entry("racy::\x1b[2J\nx")]), (session(2), [odd]))
    for words in (["history"], ["history", "x"], ["flaky"], ["diff"]):
        _, lines = asked(capsys, *words, "--runs", tmp_path)
        assert all(line.isprintable() for line in lines)


def test_a_case_that_no_session_has_is_one_line(runs, capsys):
    assert main(["history", "nothing", "--runs", str(runs)]) == 4
    assert "no session has a case like 'nothing'" in capsys.readouterr().err


def test_sessions_of_the_last_days_are_shown(tmp_path, capsys):
    remembered(tmp_path, (session(1, began="2020-01-01T00:00:00Z"), [entry()]), (session(1, began="9999"), [entry()]))
    _, lines = asked(capsys, "history", "--since", "14d", "--json", "--runs", tmp_path)
    assert [one["id"] for one in json.loads("\n".join(lines))] == [2]
