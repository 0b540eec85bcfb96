"""The health sheet, from golden histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from signal import SIGSEGV

import pytest
from support.golden import Golden, plan, sound

from breakrank.causes import CAUSES_BY_PROPERTY
from breakrank.history.reader import History
from breakrank.oracles import all_oracles, oracles_of
from breakrank.report.health import NOT_SEEN, WELL, WRONG, Health, health
from breakrank.runs.checkup import CENSUS, CONTENTS, EVIDENCE, LIGHT, RESUME, Checkup, Look, Order
from breakrank.runs.saved_run import SavedRun, judge_saved
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.evidence import EVIDENCE as KINDS

PLAN: Plan = plan(strikes=(), steps=0, control="", command=("train.py",), oracles=("ends", "progress", "replicas"))


def look(history: History, name: str = LIGHT, peer: History | None = None, **values) -> Look:
    made = replace(PLAN, evidence=EVIDENCE[name], **values)
    saved = SavedRun(Path("run"), made, history, peer, None)
    return Look(name, saved, judge_saved(saved), 1.0)


def sheet(*looks: Look, **values) -> Health:
    return health(Checkup(Order(PLAN, Path()), looks, **values))


def states(made: Health) -> dict[str, str]:
    return {line.name: line.state for line in made.lines}


def test_each_property_is_judged_by_oracles_and_each_oracle_judges_one():
    judges = {name: oracles_of(name) for name in CAUSES_BY_PROPERTY}
    assert all(judges.values()) and judges["memory"] == ("leak", "native_leak")
    assert sorted(name for names in judges.values() for name in names) == sorted(all_oracles())


def test_the_three_runs_record_what_their_oracles_read():
    recorded = {kind for name in (LIGHT, CONTENTS, CENSUS) for kind in EVIDENCE[name]}
    # The heap is not measured beside a census, and norms are for a reference.
    assert set(KINDS) - recorded == {"heap", "norms"}


def test_the_sheet_of_sound_runs_says_what_was_seen_and_why_the_rest_was_not():
    made = sheet(*(look(sound(), name, sound()) for name in (LIGHT, CONTENTS, CENSUS)))
    assert (made.status, made.wrong, made.findings) == (0, (), ())
    found = states(made)
    assert found["ends"] == found["replicas"] == WELL
    assert found["memory"] == found["resume"] == NOT_SEEN
    said = {line.name: line.said for line in made.lines}
    assert (said["memory"], said["resume"]) == ("no census was taken", "no --resume was given")


def test_a_finding_of_one_run_is_wrong_whatever_the_others_say():
    job = Golden(ranks=2).trains(3)
    job[1].holds("other")
    made = sheet(look(sound()), look(job.ends_well().history(), CONTENTS))
    assert (made.status, [line.name for line in made.wrong]) == (1, ["replicas"]), made.text("")
    assert made.wrong[0].run == CONTENTS and made.shown.name == CONTENTS
    assert len(made.findings) == 1


def test_the_way_in_which_a_job_ends_comes_after_what_explains_it():
    job = Golden(ranks=2).trains(2)
    for rank in job.ranks:
        rank.enters("backward").dies(SIGSEGV)
    made = sheet(look(job.history()))
    assert [line.name for line in made.wrong] == ["ends"] and "SIGSEGV" in made.headline
    assert {state for name, state in states(made).items() if name != "ends"} == {NOT_SEEN}


def test_the_innermost_line_of_the_users_own_code_stands_in_the_sentence_of_an_error():
    job = Golden(ranks=2).trains(1)
    frames = [
        ["/home/me/train.py", 30, "<module>"],
        ["/home/me/model.py", 7, "forward"],
        ["/x/site-packages/t.py", 1, "f"],
    ]
    for rank in job.ranks:
        rank.writes("report", type="ValueError", message="wrong shape", code=1, frames=frames).exits(1)
    made = sheet(look(job.history()))
    assert made.wrong[0].words == "rank 0 reported ValueError: wrong shape (model.py:7) at step 1"


def test_of_a_rank_that_lost_a_peer_the_peer_that_went_is_told_first():
    job = Golden(ranks=2).trains(1)
    job[0].enters("collective").enters("collective", op="allreduce_", site="train.py:9")
    job[0].reports("RuntimeError", "Connection closed by peer [127.0.0.1]:4")
    job[1].ends()
    made = sheet(look(job.history()))
    said = made.wrong[0].words
    assert said.startswith(
        "rank 1: was through with its work after 1 collective, when rank 0 called all_reduce (train."
    )
    assert "as number 3. So rank 0 reported RuntimeError: Connection" in said, said


def test_a_run_that_says_nothing_is_too_little():
    job = Golden(ranks=2)
    for rank in job.ranks:
        rank.ends()
    made = sheet(look(job.history()))
    assert made.status == 2 and set(states(made).values()) == {NOT_SEEN}


def test_what_else_is_wrong_with_a_property_is_named_behind_the_first_finding():
    job = Golden(ranks=1).trains(4)
    job[0].writes("inputs", gradients=["a"]).writes("unzeroed", optimizer=1, steps=4)
    job[0].writes("stray", optimizer=1, parameters=2, unowned=["weight"])
    made = sheet(look(job.ends_well().history()))
    (line,) = [line for line in made.lines if line.name == "gradients and optimizer"]
    assert line.said.startswith("optimizer 1 of rank 0 has 2 parameters that no module in use has")
    assert line.said.endswith(". Also: gradients not zeroed")


@pytest.mark.parametrize("colour", [False, True])
def test_the_states_stand_in_one_column_and_no_colour_stands_alone(colour):
    lines = sheet(look(sound())).text("breakrank check train.py", colour).splitlines()[: len(CAUSES_BY_PROPERTY)]
    assert ("\x1b[" in "".join(lines)) is colour
    places = {min(place for state in (WELL, WRONG, NOT_SEEN) if (place := line.find(state, 20)) > 0) for line in lines}
    assert len(places) == 1
    assert all(line.startswith(name) for line, name in zip(lines, CAUSES_BY_PROPERTY, strict=True))


def test_the_last_line_repeats_the_checkup():
    assert sheet(look(sound())).text("breakrank check 'my train.py'").endswith("again: breakrank check 'my train.py'")


def test_a_resume_that_was_not_possible_gives_its_reason():
    made = sheet(look(sound()), unresumed="the ranks made 1 steps, and it takes two that all of them made")
    assert next(line.said for line in made.lines if line.name == RESUME).startswith("the ranks made 1 steps")
