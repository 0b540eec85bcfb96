"""The line of the user's code that a failure leads to."""

from __future__ import annotations

import json

import pytest

from breakrank.history.reader import History, RankHistory
from breakrank.report.blamed_line import blamed_line
from breakrank.runs.saved_run import SavedRun
from breakrank.verdict import Blame, Finding, Outcome, Verdict
from breakrank_agent.plan import Plan

PACKAGES = "/x/lib/python3.11/site-packages/torch/autograd/graph.py"


def rank(number, *events):
    return RankHistory(0, number, events, 1, False)


def report(*frames):
    common = {"kind": "report", "seq": "main", "n": 1, "t": 0.0, "step": 1, "code": 1}
    return {**common, "type": "ValueError", "message": "", "frames": [list(frame) for frame in frames]}


def saved(folder, verdict, *ranks, conductor=()):
    history = History({(0, one.rank): one for one in ranks}, tuple(conductor))
    return SavedRun(folder, Plan("s", "c", "a:b"), history, None, verdict.to_json())


def test_it_is_the_innermost_of_the_users_lines_that_a_blamed_rank_raised_in(tmp_path):
    frames = [("/me/train.py", 3, "main"), ("/me/net.py", 8, "forward"), (PACKAGES, 90, "call")]
    verdict = Verdict(Outcome.DETECTED, blame=Blame((1,), "it raised"))
    run = saved(tmp_path, verdict, rank(0, report(("/me/other.py", 1, "f"))), rank(1, report(*frames)))
    assert blamed_line(run) == ("/me/net.py", 8)


def test_where_no_blamed_rank_raised_it_is_the_line_of_another_one(tmp_path):
    verdict = Verdict(Outcome.DETECTED, blame=Blame((1,), "it died"))
    run = saved(tmp_path, verdict, rank(0, report(("/me/train.py", 3, "main"))), rank(1))
    assert blamed_line(run) == ("/me/train.py", 3)


def test_it_is_the_line_at_which_a_blamed_rank_stood_when_it_was_ended(tmp_path):
    def stacks(number, line):
        head = "Current thread 0x00007f0000000000 [python] (most recent call first):"
        text = f'{head}\n  File "/me/train.py", line {line} in main\n'
        return {"kind": "stacks", "t": 0.0, "attempt": 0, "rank": number, "text": text}

    verdict = Verdict(Outcome.HUNG, blame=Blame((1,), "it does not come"))
    run = saved(tmp_path, verdict, rank(0), rank(1), conductor=[stacks(0, 11), stacks(1, 13)])
    assert blamed_line(run) == ("/me/train.py", 13)


@pytest.mark.parametrize("there", [True, False])
def test_a_finding_names_a_file_that_is_looked_for_among_the_programs(tmp_path, there):
    programs = tmp_path / "programs"
    programs.mkdir()
    if there:
        (programs / "hogwild.py").touch()
    (tmp_path / "meta.json").write_text(json.dumps({"programs": str(programs)}))
    finding = Finding("race", "lost update", (1,), 2, places=("hogwild.py:61",), evidence={"how": "it overwrote"})
    run = saved(tmp_path, Verdict(Outcome.SILENT, (finding,)), rank(0), rank(1))
    assert blamed_line(run) == ((str(programs / "hogwild.py"), 61) if there else None)
