"""Training in processes that are no ranks: VOID where all of it is there, a note where ranks trained as well."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.golden import Golden, plan, sound

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


@pytest.mark.parametrize(("events", "words"), [
    ([{"below": 1, "did": "SGD"}, {"below": 0, "did": "Adam"}, {"below": 0, "did": "SGD"}],
     "3 processes that ranks 0 and 1 started and that are no ranks (SGD, Adam)"),
    ([{"below": None}], "a process that is no rank (SGD)"),
    ([{"below": None}, {"below": None}], "2 processes that are no ranks (SGD)"),
    ([{"below": 0, "own": True}], "the process of the command, which is no rank (SGD)"),
    ([{"below": 0, "own": True}, {"below": 0}], "2 processes that rank 0 started and that are no ranks (SGD)"),
])  # fmt: skip
def test_processes_that_train_are_told_by_their_number_and_who_started_them(events: Any, words: str) -> None:
    job = Golden().trains(2)
    for event in events:
        job.says("unranked", pid=7, **{**IDLE, **event})
    assert judge(job.ends_well().history(), None, plan(steps=0)).notes == (f"training was not looked at in {words}",)


def test_training_of_an_earlier_attempt_and_of_a_rank_is_not_told() -> None:
    job = Golden().trains(1).says("unranked", pid=7, **{**IDLE, "below": 0})
    job.says("unranked", pid=8, **{**IDLE, "below": 0, "attempt": 1, "rank": 1})
    job[1].reports("ValueError")
    job.ended_by_us().again().trains(2)
    notes = judge(job.ends_well().history(), None, plan(steps=0)).notes
    assert not any("training" in note for note in notes)


def test_a_rank_that_trains_beside_one_that_does_not_leaves_the_rest_a_note() -> None:
    job = Golden().trains(1, only=1).says("unranked", pid=7, **{**IDLE, "below": 0}).ends_well()
    verdict = judge(job.history(), None, plan(steps=0))
    assert (verdict.void, len([note for note in verdict.notes if "training was not looked at" in note])) == ((), 1)


def test_a_finding_says_something_although_all_training_is_elsewhere_and_a_standstill_does_not() -> None:
    job = idle()
    job[1].ends(params="flipped")
    assert judge(job.ends_well().history(), None, plan(steps=0, command=("train.py",))).void == ()


def test_a_script_that_starts_its_own_ranks_was_started_once() -> None:
    def notes(**of: Any) -> tuple[str, ...]:
        return judge(sound(), None, dataclasses.replace(plan(), **of)).notes

    said = ("train.py starts its ranks itself: it was started once, and without RANK",)
    assert notes(command=("train.py", "--epochs=2"), runner="join") == said
    assert notes(command=("torchrun", "train.py"), runner="join") == ()
    assert notes(command=("train.py",), runner="join", scenario="watch") == ()
    assert notes(command=("train.py",)) == ()


def _why(*events: dict[str, Any], ended: bool = False, **of: Any) -> str:
    """Return why no rank came of `python train.py`, which has exited with 1."""
    launcher = {"attempt": 0, "status": 1, "ended": ended, "blames": [], "closed": [], "said": ""}
    job = Golden(ranks=0).says("launcher", **launcher)
    for event in events:
        job.says("unranked", pid=7, **{**IDLE, "below": None, **event})
    by_hand = plan(steps=0, runner="join", ranks=0, command=("python", "train.py"))
    (said, *_) = judge(job.history(), None, dataclasses.replace(by_hand, **of)).void
    return said.removeprefix("no rank of 'python train.py' called home: ")


def test_the_cure_is_told_unless_ranks_may_still_come_or_processes_of_its_own_train() -> None:
    cure = "name it without 'python', as in 'train.py', to have its ranks started, or use "
    by_hand = "use 'torchrun --nproc-per-node=2 train.py'"
    training = "all training is in the process of the command, which is no rank (SGD)"
    assert _why() == f"it ended with exit code 1 before; {cure}{by_hand.removeprefix('use ')}"
    assert _why({"own": True}) == f"{training}; {cure}{by_hand.removeprefix('use ')}"
    assert _why({"own": True}, scenario="watch") == f"{training}; {by_hand}"
    assert _why({"own": True}, ended=True) == training
    assert _why({"own": True}, {"own": False}) == "all training is in 2 processes that are no ranks (SGD)"
