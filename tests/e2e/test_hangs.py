"""Hangs are proven long before any time-out and blamed on the right rank; stragglers are left alone.

Method: tests/programs/stuck.py, three ranks, the group's time-out left at half an hour, a deadline of a minute. The
rank that a program sends another way must be the one that is blamed; no part of Breakrank knows which one it is.
"""

from __future__ import annotations

import pytest

from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

WAYS = {
    "skips_a_reduction": ("participant missing", (1,)),
    "swaps_two": ("participant missing", (2,)),
    "skips_the_barrier": ("participant missing", (0,)),
    "has_another_root": ("participant missing", (2,)),
    "waits_for_a_work": ("participant missing", (1,)),
    "receives_once_more": ("participant missing", (0,)),
    "does_not_send": ("unmatched receive", (1,)),
    "does_not_receive": ("unmatched send", (0,)),
    "crosses_groups": ("crossed process groups", (1,)),
    "waits_for_a_queue": ("blocked in a lock", (0,)),
    "waits_for_its_own_lock": ("blocked in a lock", (2,)),
    "joins_a_thread_that_wants_the_gil": ("GIL deadlock", (1,)),
    "ends_holding_the_gil": ("GIL deadlock", (1,)),
    "never_comes": ("rank missing", (2,)),
    "the_first_never_comes": ("rank missing", (0,)),
    "waits_before_it_comes": ("rank missing", (2,)),
    "all_know_another_world": ("rank missing", ()),
    "knows_another_world": ("world size mismatch", (1,)),
    "comes_twice": ("duplicate rank", (2,)),
    "comes_to_another_master": ("master mismatch", (1,)),
    "speaks_another_backend": ("backend mismatch", (2,)),
    "names_its_backend_another_way_and_one_never_comes": ("rank missing", (2,)),
}
JOB = {"ranks": 3, "steps": 5, "deadline_s": 60.0, "oracles": ("progress",)}


@pytest.mark.parametrize("way", WAYS)
def test_a_hang_is_proven_and_lies_with_the_rank_that_went_another_way(run, way):
    result, saved = run(f"stuck:{way}", **JOB)
    (hung,) = saved.history.seen("hung")
    found = result.verdict
    assert (found.outcome, found.findings[0].cause, found.blame.ranks) == (Outcome.HUNG, *WAYS[way]), found.sentence()
    assert hung["why"] != "deadline" and not any(lived.report for lived in saved.history.last)


def test_the_sentence_says_who_waits_where_for_whom_and_when_it_would_have_raised(run):
    sentence = run("stuck:swaps_two", **JOB)[0].verdict.sentence()
    assert sentence.startswith("ranks 0 and 1 wait in all_reduce 5 (8 × float32, "), sentence
    assert ", which rank 2 will never enter; rank 2 waits in barrier 5 (" in sentence
    assert sentence.endswith(". Would have raised after 1800 s")


def test_a_rank_that_spins_is_ended_by_the_deadline_and_not_called_proven(run):
    result, saved = run("stuck:spins", **{**JOB, "deadline_s": 1.0})
    (hung,) = saved.history.seen("hung")
    assert (hung["why"], result.verdict.blame.ranks) == ("deadline", (1,))
    assert "not proven: rank 1 is in no collective" in result.verdict.sentence()
    stacks = {e["rank"]: e["text"] for e in saved.history.seen("stacks")}
    assert sorted(stacks) == [0, 1, 2] and "in spin" in stacks[1]


def test_the_stack_of_a_stopped_rank_is_read_from_outside(run):
    _, saved = run("stuck:straggles", faults.Stop() @ at(rank=1, step=2, point="collective"), **{**JOB, "control": ""})
    stacks = {e["rank"]: e["text"] for e in saved.history.seen("stacks")}
    assert stacks[1].startswith("(the process is stopped)") and "straggles (stuck.py:" in stacks[1]


def test_a_killed_rank_is_missed_once_its_loader_workers_have_gone_too(run):
    kill = faults.Kill() @ at(rank=1, step=3, point="collective")
    result, saved = run("heirs:leaves_workers", kill, deadline_s=60.0, control="")
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict.sentence()
    assert saved.history.last[0].report["type"] == "RuntimeError" and result.verdict.blame.ranks == (1,)


def test_a_killed_rank_that_is_never_missed_for_what_it_left_behind_is_said_to_be(run):
    kill = faults.Kill() @ at(rank=1, step=3, point="collective")
    result, _ = run("heirs:leaves_a_child", kill, deadline_s=1.0, control="")
    assert (result.verdict.outcome, result.verdict.findings[0].cause) == (Outcome.HUNG, "connection held by orphan")
    assert "which has ended and left a process behind that holds its connections open" in result.verdict.sentence()


@pytest.mark.parametrize("way", ["straggles", "goes_many_ways", "names_its_backend_another_way"])
def test_ranks_that_wait_long_but_not_for_ever_are_left_alone(run, way):
    result, _ = run(f"stuck:{way}", **{**JOB, "oracles": ("ends", "progress")})
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.sentence()
