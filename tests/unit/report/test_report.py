"""Reports: the drawing, the events that show a failure, the table, the live line, a plan in words."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from breakrank import at, controlled, faults
from breakrank.errors import BreakrankError
from breakrank.history.reader import History, RankHistory
from breakrank.report import explain, plan_words
from breakrank.report.drawing import draw
from breakrank.report.events import interleaving, telling_events
from breakrank.report.terminal import Row, headline, live_line, verdict_table
from breakrank.runs.saved_run import SavedRun
from breakrank.verdict import Blame, Finding, Outcome, Verdict
from breakrank_agent.plan import Plan


def point(name, step, **more):
    return {"kind": "point", "seq": "main", "n": 0, "point": name, "step": step, "visit": 1, **more}


def lived(rank, *events, status=0, ended_by_us=False, attempt=0):
    return RankHistory(attempt, rank, events, status, ended_by_us)


def history(*ranks, conductor=()):
    return History({(r.attempt, r.rank): r for r in ranks}, tuple(conductor))


END = {"kind": "end", "seq": "main", "n": 9, "step": 3, "code": 0}
REPORT = {
    "kind": "report",
    "seq": "main",
    "n": 9,
    "step": 2,
    "type": "RuntimeError",
    "message": "closed\nby peer",
    "code": 1,
}
STRUCK = {"kind": "strike", "phase": "landed", "strike": 0, "attempt": 0, "rank": 1, "witness": "waitpid"}

KILLED = history(
    lived(0, point("step", 1), point("collective", 2, op="all_reduce"), status=-9, ended_by_us=True),
    lived(1, point("step", 1), point("step", 2), point("forward", 3), status=-9),
    lived(2, point("step", 1), point("step", 2), REPORT, status=1),
    lived(3, point("step", 1), point("step", 2), point("step", 3), END),
    conductor=[STRUCK],
)
QUIET = Verdict(Outcome.DETECTED, reported=("rank 2 raised RuntimeError",), blame=Blame((1,), "it is gone")).to_json()


def test_the_drawing_marks_how_each_rank_ended():
    assert draw(KILLED, QUIET) == [
        "rank 0  1 2…    was ended by Breakrank in all_reduce at step 2",
        "rank 1  1 2 3✗  SIGKILL by the injector in forward at step 3",
        "rank 2  1 2!    RuntimeError: closed",
        "rank 3  1 2 3✓  ended well",
    ]


def test_the_drawing_of_a_long_run_shows_its_last_steps():
    (line,) = draw(history(lived(0, *(point("step", n) for n in range(1, 101)), END)), QUIET)
    assert line.startswith("rank 0  ... 93 94 95 96 97 98 99 100✓")


def test_the_drawing_shows_every_attempt_when_there_are_several():
    lines = draw(history(lived(0, attempt=0, status=1), lived(0, END, attempt=1)), QUIET)
    assert [line.split("  ")[0] for line in lines] == ["attempt 0", "rank 0", "attempt 1", "rank 0"]


def test_a_rank_of_which_nothing_was_seen_can_be_drawn():
    assert draw(history(lived(0, status=None)), QUIET) == ["rank 0  0…  never ended"]


def test_an_interleaving_has_a_column_for_each_rank():
    events = [
        {"rank": 0, "turn": 1, "mode": "r", "op": "add_.Tensor"},
        {"rank": 2, "turn": 2, "mode": "rw", "op": "add_.Tensor", "step": 4},
    ]
    lines = interleaving(events)
    assert lines[0].split() == ["rank", "0", "rank", "2"]
    assert lines[1] == "  1 reads in add_"
    assert lines[2].strip() == "2 updates in add_ (step 4)" and lines[2].index("2") > lines[0].index("rank 2")


def test_a_long_interleaving_is_cut_and_says_so():
    lines = interleaving([{"rank": 0, "mode": "w", "op": "add_.Tensor"}] * 40)
    assert lines[-1] == "... 24 more"


def test_a_lost_update_is_shown_by_its_accesses():
    finding = Finding(
        "race", "lost update", (1,), 1, evidence={"events": [{"rank": 0, "mode": "r", "op": "add_.Tensor"}]}
    )
    assert telling_events(KILLED, Verdict(Outcome.SILENT, (finding,)).to_json())[0] == "rank 0"


def test_other_findings_are_shown_by_the_strikes_and_the_last_points_before():
    finding = Finding("finite", "non-finite value", (3,), 2, evidence={"what": "nan"})
    lines = telling_events(KILLED, Verdict(Outcome.SILENT, (finding,)).to_json())
    assert lines[0] == "strike 0 landed: rank 1, seen by waitpid"
    assert "rank 3  step 2  step" in lines and "rank 3  step 3  step" not in lines
    assert "rank 0  step 2  collective all_reduce" in lines


def saved(tmp_path, verdict, recorded=None):
    plan = Plan("killed_rank", "torch", "a:b", strikes=(faults.Kill() @ at(1, 3),))
    more = {"record": recorded, "as_recorded": recorded is None, "seconds": 1.0}
    return SavedRun(tmp_path, plan, KILLED, None, None if verdict is None else {**verdict, **more})


def test_an_explanation_has_all_its_parts(tmp_path):
    (tmp_path / "attempt-0").mkdir()
    (tmp_path / "attempt-0/rank-2.err").write_text("\n".join(f"line {n}" for n in range(50)))
    text = explain(saved(tmp_path, {**QUIET, "notes": ["rank 3 was late"]}, recorded="HUNG"))
    parts = [
        "killed_rank::torch: DETECTED: rank 2 raised RuntimeError",
        "on record is HUNG",
        "what the ranks did:",
        "strike 0 landed",
        "rank 1: it is gone",
        "note: rank 3 was late",
        "rank 2 stderr:",
        "line 49",
        f"pytest --scenario-replay {tmp_path}",
    ]
    assert [part for part in parts if part not in text] == []
    assert "line 10" not in text and [text.index(p) for p in parts] == sorted(text.index(p) for p in parts)


def test_what_a_control_that_failed_wrote_is_shown_where_nothing_came_after_it(tmp_path):
    (tmp_path / "control/attempt-0").mkdir(parents=True)
    (tmp_path / "control/attempt-0/rank-0.err").write_text("no GPU here\n")
    (tmp_path / "control/launcher.err").write_text("the launcher's table\n")
    left = {"kind": "launcher", "attempt": 0, "status": 1, "ended": False, "blames": [], "closed": []}
    control = history(lived(0, status=1), lived(1, END), conductor=[left])
    text = explain(replace(saved(tmp_path, QUIET), history=history(), control=control))
    assert "  rank 0 stderr:\n    no GPU here\n  launcher stderr:\n    the launcher's table\n" in text
    assert "rank 1 stderr" not in text


def test_a_run_without_a_verdict_cannot_be_explained(tmp_path):
    with pytest.raises(BreakrankError, match="was never judged"):
        explain(saved(tmp_path, None))


def test_a_run_with_half_a_verdict_cannot_be_explained(tmp_path):
    with pytest.raises(BreakrankError, match="damaged: it has no field 'abstained'"):
        explain(saved(tmp_path, {"outcome": "VOID"}))


ROWS = [
    Row("b", "x", "SILENT", "lost", "SILENT", True, "abcdef0123", 1.25, passed=True),
    Row("a", "y", "HUNG", "waits", "SURVIVED", False, "ff", 3, passed=False),
    Row("a", "x", "VOID", "no strike landed", "HUNG", False, "", 3, passed=False),
    Row("a", "z", "", "torch is not installed", "HUNG"),
]


def test_the_headline_counts_skips_and_voids_as_not_tested():
    assert headline(ROWS) == "1 as recorded, 1 changed, 2 not tested"


def test_the_headline_of_scripts_speaks_of_no_record():
    rows = [Row("s", "train.py", "DETECTED", passed=True), Row("s", "other.py", "SILENT"), Row("s", "third.py", "VOID")]
    assert headline(rows) == "1 fine, 1 not fine, 1 not tested"


def test_the_table_is_sorted_and_aligned():
    lines = verdict_table(ROWS)
    assert [line.split()[:2] for line in lines[1:]] == [["a", "x"], ["a", "y"], ["a", "z"], ["b", "x"]]
    assert (
        "no: SURVIVED" in lines[2]
        and lines[4].split()[3:] == ["as", "recorded", "abcdef01", "1.2", "lost"]
        and "not tested" in lines[3]
    )
    assert len({line.index(word) for line, word in zip(lines[1:3], ("VOID", "HUNG"), strict=True)}) == 1


def test_repeats_are_a_column_only_where_there_are_some():
    assert "repeat" not in verdict_table(ROWS)[0] and "runner" not in verdict_table(ROWS)[0]
    assert "3/3" in verdict_table([Row("a", "b", "SURVIVED", repeats="3/3", as_recorded=True, passed=True)])[1]


def test_a_row_survives_the_way_through_a_report():
    properties = {
        "scenario": "s",
        "case": "c",
        "outcome": "HUNG",
        "as_recorded": "false",
        "seconds": "2.5",
        "digest": "d",
    }
    row = Row.from_properties(properties, passed=False)
    assert (row.as_recorded, row.seconds, row.tested) == (False, 2.5, True)


def test_the_live_line_fits_its_width():
    ranks = {1: (3, "backward"), 0: (3, "collective")}
    assert live_line("run", 0, ranks, 80) == "rank 0 step 3 collective │ rank 1 step 3 backward"
    assert live_line("control", 1, ranks, 80).startswith("control attempt 1 rank 0")
    assert len(live_line("run", 0, ranks, 20)) == 20
    assert live_line("run", 0, {}, 80) == "starting"


def test_a_plan_in_words_says_what_runs_what_strikes_and_what_judges():
    strike = faults.Kill() @ at("last", 3, "collective")
    plan = Plan(
        "killed_rank",
        "torch",
        "a:b",
        ranks=3,
        restarts=1,
        control="same",
        schedule=controlled("random"),
        oracles=("ends", "control"),
        strikes=(type(strike)(strike.fault, strike.trigger, (2,)),),
        tolerance=0.5,
        environment={"A": "1"},
    )
    words = plan_words(plan)
    assert "3 ranks run a:b (torch) for 5 steps, one rank at a time, chosen by random, seed 0" in words
    assert "Struck by kill at last of the ranks, step 3, collective (ranks 2)" in words
    assert "The control is the same without the strikes." in words
    assert "restarted up to 1 time" in words and "Judged by ends, control, results within 0.5" in words
    assert "Environment: A=1." in words
    elastic = plan_words(dataclasses.replace(plan, elastic=True))
    assert "restarted up to 1 time, without whom a signal has ended; it is ended" in elastic


def test_a_quiet_plan_in_words_says_that_nothing_strikes():
    words = plan_words(Plan("baseline", "torch", "a:b", ranks=1, steps=1))
    assert "1 rank runs a:b (torch) for 1 step, at full speed" in words
    assert "Nothing strikes." in words and "There is no control." in words
