"""Evidence at the edge of too little: things seen of the run or of its control, and launchers without ranks."""

from __future__ import annotations

import dataclasses
from signal import SIGKILL
from typing import Any

import pytest
from support.golden import Golden, killed, plan, sound

from breakrank import faults
from breakrank.history.reader import History
from breakrank.judge.judge import judge
from breakrank.judge.sufficiency import left_words, world_of
from breakrank.verdict import Outcome
from breakrank_agent.protocol.trigger import at


def bare(ranks: int = 2) -> Golden:
    """Return a job of ranks that do nothing."""
    job = Golden(ranks)
    for one in job.ranks:
        one.enters("start")
    return job


def nothing_seen(history: History, control: History | None = None, **of: Any) -> bool:
    verdict = judge(history, control, plan(**{"steps": 0, "command": ("train.py",), **of}))
    return any(reason.startswith("nothing was seen") for reason in verdict.void)


def test_a_point_of_the_control_is_something_seen() -> None:
    idle = bare().ends_well().history()
    assert nothing_seen(idle) and nothing_seen(idle, idle)
    assert not nothing_seen(idle, sound())
    assert not nothing_seen(sound(), idle)


def test_a_metric_or_a_state_of_one_rank_is_something_seen() -> None:
    job = bare()
    job[1].writes("told", name="loss", values={"loss": 1.0})
    assert not nothing_seen(job.ends_well().history())
    job = bare()
    job[1].ends(state={"updates": 3})
    assert not nothing_seen(job.ends_well().history())


def test_a_launcher_that_failed_says_something_of_ranks_that_did_nothing() -> None:
    left = {"attempt": 0, "status": 1, "ended": False, "blames": [], "closed": []}
    assert not nothing_seen(bare().ends_well().says("launcher", **left).history())
    assert nothing_seen(bare().ends_well().says("launcher", **{**left, "status": 0}).history())


def test_a_step_of_the_control_is_one_that_was_seen() -> None:
    job = bare()
    job[0].enters("collective")
    of = plan(steps=0, command=("train.py",), step="train:one")
    said = "no step was seen: train:one never returned"
    assert said in judge(job.ends_well().history(), None, of).notes
    assert said not in judge(job.history(), sound(), of).notes
    assert said not in judge(sound(), job.history(), of).notes
    unnamed = judge(job.history(), None, dataclasses.replace(of, step=""))
    assert not any(note.startswith("no step was seen") for note in unnamed.notes)


def test_ranks_that_do_not_count_steps_alike_leave_undecided_only_what_was_struck_in_a_job_like_its_control() -> None:
    held = {"attempt": 0, "rank": 0, "waiting": [1], "on": True}
    strike = dataclasses.replace(faults.Kill() @ at(1, 2, "optimize"), ranks=(1,))
    unlike, alike = Golden().trains(3).ends_well().says("held", **held).history(), sound()
    struck, usual = killed().says("held", **held).history(), killed().history()

    def void(history: History, control: History | None, **of: Any) -> tuple[str, ...]:
        return judge(history, control, plan(until=3, **of)).void

    assert void(struck, unlike, strikes=(strike,)) != ()
    assert void(struck, alike, strikes=(strike,)) == void(struck, None, strikes=(strike,)) == ()
    assert void(usual, unlike, strikes=(strike,)) == void(unlike, unlike) == ()


def test_a_record_that_was_cut_is_named_once_a_rank() -> None:
    job = Golden().trains(3)
    for one in job.ranks:
        one.writes("payload", of="load", indices="(cut)", samples=None, batch="b", cut="indices")
        one.writes("payload", of="load", indices=None, samples="(cut)", batch="b", cut="samples")
    assert judge(job.ends_well().history(), None, plan()).void == tuple(
        f"a record of rank {rank} was too long and lost its indices" for rank in (0, 1)
    )


def test_a_launcher_without_ranks_says_once_which_process_could_not_be_entered() -> None:
    left = {"attempt": 0, "status": 1, "ended": False, "blames": [], "closed": ["process 7 is no Python"]}
    of = plan(runner="join", ranks=0, steps=0, command=("torchrun", "train.py"))
    assert judge(Golden(ranks=0).says("launcher", **left).history(), None, of).void == (
        "no rank of 'torchrun train.py' called home: process 7 is no Python",
    )


def test_the_last_launcher_says_why_no_rank_came() -> None:
    left = {"attempt": 0, "ended": False, "blames": [], "closed": []}
    of = plan(runner="join", ranks=0, steps=0, command=("torchrun", "train.py"))
    job = Golden(ranks=0).says("launcher", status=3, said="ValueError: first\nmore", **left)
    job.says("launcher", status=4, said="KeyError: second\nmore", **left)
    (said, *_) = judge(job.history(), None, of).void
    assert said.endswith("called home: it ended with exit code 4 before (KeyError: second)")


@pytest.mark.parametrize(("status", "blames", "words"), [
    (None, [], "ended with exit code 0"),
    (3, [0, 1], "ended with exit code 3, and blames ranks 0 and 1"),
    (-15, [1], "was killed by SIGTERM, and blames rank 1"),
])  # fmt: skip
def test_a_launcher_is_told_by_its_end_and_whom_it_blames(status: int | None, blames: list[int], words: str) -> None:
    left: Any = {"kind": "launcher", "attempt": 0, "status": status, "blames": blames}
    assert left_words(left) == words


def test_a_script_whose_oracles_abstain_is_not_void_for_that_and_a_case_is() -> None:
    of = plan(ranks=1, oracles=("replicas", "samples"))
    assert judge(sound(ranks=1), None, of).outcome is Outcome.VOID
    assert judge(sound(ranks=1), None, dataclasses.replace(of, command=("train.py",))).outcome is Outcome.SURVIVED
    silent = judge(sound(ranks=1), None, of, silent=("samples",))
    assert silent.void == (f"every oracle abstained: replicas: {silent.abstained['replicas']}",)


def test_a_job_has_as_many_ranks_as_any_of_its_attempts() -> None:
    assert [world_of(history) for history in (History(), sound(ranks=1), sound(ranks=3))] == [0, 1, 3]


@pytest.mark.parametrize("of", [{"runner": "join"}, {"elastic": True}])
def test_a_rank_that_others_of_its_attempt_know_of_and_that_never_came_is_named(of: Any) -> None:
    job = Golden(3).trains(1)
    job[2].dies(SIGKILL)
    job.ended_by_us()
    job.size = 2
    history = job.again().trains(3).ends_well().history()
    lacking = dataclasses.replace(history, ranks={key: one for key, one in history.ranks.items() if key != (0, 1)})
    of = {"ranks": 4, "oracles": ("ends", "finite"), **of}
    assert judge(lacking, None, plan(**of)).void == ("rank 1 never started in attempt 0",)
    assert judge(history, None, plan(**of)).void == ()
