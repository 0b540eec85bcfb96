"""Training in processes that are no ranks: VOID where all of it is there, a note where ranks trained as well."""

from __future__ import annotations

import dataclasses

from support.golden import Golden, plan

from breakrank.judge.judge import judge
from breakrank.verdict import Outcome

IDLE = {"attempt": 0, "own": False, "did": "SGD", "rank": None, "world": None}


def idle(below: int | None = 0) -> Golden:
    """Return a job whose ranks only evaluate, while a process trains."""
    job = Golden()
    for one in job.ranks:
        one.enters("forward")
    return job.says("unranked", pid=7, **{**IDLE, "below": below})


def test_a_job_whose_training_is_elsewhere_is_void_with_the_reason():
    verdict = judge(idle().ends_well().history(), None, plan(steps=0))
    assert verdict.outcome is Outcome.VOID
    assert "all training is in a process that rank 0 started and that is no rank (SGD)" in verdict.void


def test_a_deadline_does_not_hide_it_and_a_proven_wait_does():
    said = "all training is in a process that rank 0 started and that is no rank (SGD)"
    assert said in judge(idle().hangs([0, 1]).history(), None, plan(steps=0)).void
    assert said not in judge(idle().hangs([0], why="peer stopped", peer=1).history(), None, plan(steps=0)).void


def test_ranks_that_train_are_judged_and_the_rest_is_a_note():
    job = Golden().trains(2).says("unranked", pid=7, **{**IDLE, "below": 1}).ends_well()
    verdict = judge(job.history(), None, plan(steps=0))
    assert verdict.outcome is Outcome.SURVIVED and not verdict.void
    assert "training was not looked at in a process that rank 1 started and that is no rank (SGD)" in verdict.notes


def test_a_job_in_which_nothing_else_trains_has_no_word_of_it():
    verdict = judge(Golden().trains(2).ends_well().history(), None, plan(steps=0))
    assert not any("training" in text for text in (*verdict.void, *verdict.notes))


def test_a_command_without_ranks_has_the_cure_unless_what_trains_are_processes_of_its_own():
    by_hand = dataclasses.replace(plan(steps=0), command=("python", "train.py"), runner="join", ranks=0)
    launcher = {"attempt": 0, "status": 1, "ended": False, "blames": [], "closed": [], "said": "ValueError: no RANK\nb"}
    bare = Golden(ranks=0).says("launcher", **launcher)
    (said, *_) = judge(bare.history(), None, by_hand).void
    assert "exit code 1 before (ValueError: no RANK); name it without 'python'" in said
    job = Golden(ranks=0).says("unranked", pid=7, **{**IDLE, "below": None}).says("launcher", **launcher)
    (said, *_) = judge(job.history(), None, by_hand).void
    assert said.endswith("called home: all training is in a process that is no rank (SGD)")
