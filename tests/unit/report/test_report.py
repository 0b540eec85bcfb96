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
from breakrank.report.layout import cells
from breakrank.report.table import verdict_table
from breakrank.report.terminal import Row, headline, live_line
from breakrank.runs.saved_run import SavedRun
from breakrank.verdict import Blame, Finding, Outcome, Verdict
from breakrank_agent.plan import Plan


def point(name, step, t=0.0, **more):
    return {"kind": "point", "seq": "main", "n": 0, "t": t, "point": name, "step": step, "visit": 1, **more}


def lived(rank, *events, status=0, ended_by_us=False, attempt=0):
    return RankHistory(attempt, rank, events, status, ended_by_us)


def history(*ranks, conductor=()):
    return History({(r.attempt, r.rank): r for r in ranks}, tuple(conductor))


END = {"kind": "end", "seq": "main", "n": 9, "step": 3, "code": 0}
REPORT = {
    "kind": "report",
    "seq": "main",
    "n": 9,
    "t": 0.0,
    "step": 2,
    "type": "RuntimeError",
    "message": "closed\nby peer",
    "code": 1,
}
STRUCK = {"kind": "strike", "t": 0.0, "phase": "landed", "strike": 0, "attempt": 0, "rank": 1, "witness": "waitpid"}

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


def test_strikes_stand_at_their_place_in_time_below_the_attempt_in_which_they_were():
    fired = {"kind": "strike", "seq": "main", "n": 1, "t": 1.5, "phase": "fired", "strike": 0, "step": 2}
    ranks = [
        lived(0, point("step", 1, 1.0), fired, point("step", 2, 2.0), status=-9),
        lived(0, point("restore", 1, 4.0), point("step", 1, 5.0), END, attempt=1),
    ]
    landed = {**STRUCK, "t": 3.0, "rank": 0}
    finding = Finding("samples", "samples lost", (0,), 1, attempt=1, evidence={})
    shown = history(*ranks, conductor=[landed])
    assert telling_events(shown, Verdict(Outcome.SILENT, (finding,)).to_json()) == [
        *("attempt 0", "  strike 0 fired: rank 0 at step 2", "  strike 0 landed: rank 0, seen by waitpid"),
        *("attempt 1", "  rank 0  step 1  restore", "  rank 0  step 1  step"),
    ]
    alone = history(ranks[0], conductor=[landed])
    assert telling_events(alone, QUIET) == [
        *("rank 0  step 1  step", "strike 0 fired: rank 0 at step 2", "rank 0  step 2  step"),
        "strike 0 landed: rank 0, seen by waitpid",
    ]


def test_columns_of_an_interleaving_are_closer_where_the_terminal_is_narrow():
    events = [{"rank": rank, "turn": rank, "mode": "rw", "op": "add_.Tensor", "step": 4} for rank in range(3)]
    assert max(map(len, interleaving(events, 60))) <= 60 < max(map(len, interleaving(events)))


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


def test_the_users_own_frames_come_before_the_end_of_the_traceback(tmp_path):
    (tmp_path / "attempt-0").mkdir()
    (tmp_path / "attempt-0/rank-0.err").write_text("a\n[rank0]:   ^^^^~~\nRuntimeError: lost\n")
    frames = [["/me/mine.py", 8, "main"], ["/x/site-packages/torch/a.py", 1, "f"], ["/me/net.py", 4, "\x1b[2Jforward"]]
    run = replace(saved(tmp_path, QUIET), history=history(lived(0, {**REPORT, "frames": frames}, status=1)))
    text = explain(run)
    assert (
        "  rank 0 failed in:\n    /me/mine.py:8 in main\n    /me/net.py:4 in \\x1b[2Jforward\n  rank 0 stderr:" in text
    )
    assert "torch/a.py" not in text and "    a\n    RuntimeError: lost" in text


@pytest.mark.parametrize("width", [60, 80])
def test_an_explanation_fits_its_width_but_for_what_is_there_to_be_copied(tmp_path, width, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run/attempt-0").mkdir(parents=True)
    (tmp_path / "run/attempt-0/rank-2.err").write_text("w" * 300 + "\n" + "世界 " * 90)
    run = saved(tmp_path / "run", {**QUIET, "notes": ["a note of many words " * 20]}, recorded="HUNG")
    lines = explain(run, width).splitlines()
    assert max(map(cells, lines)) <= width and lines[-1] == "    pytest --scenario-replay run"
    flat = "".join("".join(lines).split())
    assert "w" * 300 in flat and "anoteofmanywords" * 20 in flat, "nothing is cut"


def test_advice_stands_in_the_place_of_the_record(tmp_path):
    said = explain(saved(tmp_path, QUIET, recorded="HUNG"), advice="mine.py:4 says expect=HUNG")
    assert "\n  mine.py:4 says expect=HUNG\n" in said and "on record" not in said


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


def table(rows, width):
    return ["".join(part.text for part in line) for line in verdict_table(rows, width)]


def test_on_a_wide_terminal_the_table_is_sorted_and_aligned():
    lines = table(ROWS, 120)
    assert [line.split("  ")[0] for line in lines] == ["outcome", "VOID", "HUNG", "not tested", "SILENT"]
    assert [line.split()[1] for line in lines[1:3]] == ["a::x", "a::y"]
    assert lines[2].endswith("on record SURVIVED; waits")
    assert lines[4].split() == ["SILENT", "b::x", "abcdef01", "1.2", "lost"]
    assert len({line.index("::") for line in lines[1:]}) == 1


def test_on_a_narrow_terminal_a_case_has_two_lines_and_one_that_differs_all_that_it_takes():
    long = "the result of rank 0 differs from the control's " * 3
    rows = [
        Row("a", "x", "SILENT", long, "SILENT", True, passed=True, finding="control: wrong result, rank 0, step 2"),
        Row("a", "y", "SILENT", long, "SURVIVED", False, finding="control: wrong result, rank 0, step 2"),
        Row("a", "z", "SURVIVED", "no rank reported and no oracle objects", "SURVIVED", True, passed=True),
    ]
    lines = table(rows, 60)
    assert lines[0] == "SILENT    a::x  control: wrong result, rank 0, step 2"
    assert lines[1].endswith("…") and lines[1].startswith("  the result") and "as recorded" not in "".join(lines)
    assert lines[3].startswith("  on record SURVIVED; the result")
    assert " ".join(" ".join(lines[3:-1]).split()) == f"on record SURVIVED; {long.strip()}"
    assert lines[-1] == "SURVIVED  a::z"


@pytest.mark.parametrize("width", [40, 80, 109, 110, 150, 220])
def test_no_row_of_the_table_is_wider_than_the_terminal(width):
    wide = Row(
        "世界" * 8, "c" * 60, "DETECTED", "世界 " * 50 + "w" * 300, "SILENT", False, finding="f" * 90, runner="docker"
    )
    lines = table([*ROWS, wide, replace(wide, repeats="1/3", as_recorded=True, passed=True)], width)
    assert max(map(cells, lines)) <= width


def test_the_outcome_alone_is_coloured():
    parts = [part for line in verdict_table(ROWS, 80) for part in line if part.state]
    assert [(part.text.strip(), part.state) for part in parts] == [
        ("VOID", "void"),
        ("HUNG", "bad"),
        ("not tested", "void"),
        ("SILENT", "good"),
    ]


def test_what_has_no_wrong_record_is_shown_without_one():
    assert "on record" not in "".join(table([Row("s", "train.py", "SILENT", "lost")], 80))


def test_repeats_are_a_column_only_where_there_are_some():
    assert "repeat" not in table(ROWS, 120)[0] and "runner" not in table(ROWS, 120)[0]
    repeated = [Row("a", "b", "SURVIVED", repeats="3/3", as_recorded=True, passed=True)]
    assert "3/3" in table(repeated, 120)[1] and "3/3" in table(repeated, 80)[0]


def test_a_record_that_never_held_is_not_as_written():
    rows = [*ROWS, Row("m", "x", "SILENT", "lost", "SURVIVED", False, fresh=True)]
    assert headline(rows) == "1 as recorded, 1 changed, 1 not as written, 2 not tested"


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
    assert live_line("run", 0, {}, 80, "job 7 waits: Resources") == "job 7 waits: Resources"
    assert live_line("warming up torch", 0, {}, 80) == "starting the warm process (imports torch, once)"


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
