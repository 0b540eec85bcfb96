"""Loads that change nothing, and files of which several ranks wrote: which of several is told, and on what evidence."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.verdict import Finding

LOADED = {"keys": 4, "fitted": 4, "unread": "", "lacking": "", "own": False, "site": "train.py:7"}


def loaded(**facts: Any) -> History:
    """Return a job whose ranks load a state into a module, with these facts of it."""
    job = Golden(2)
    for one in job.ranks:
        one.writes("loaded", **{**LOADED, **facts})
    return job.ends_well().history()


@pytest.mark.parametrize(("facts", "cause", "words"), [
    ({"fitted": 0, "unread": "module.a", "lacking": "a"}, "nothing loaded", "of the 4 keys of the state (module.a) is"),
    ({"fitted": 0, "unread": "b", "lacking": "a", "site": ""}, "nothing loaded", "at a line that is not yours"),
    ({"own": True}, "state not copied", "its own state at train.py:7"),
])  # fmt: skip
def test_a_load_that_changes_nothing_is_named_without_a_control(facts: Any, cause: str, words: str) -> None:
    (found,) = ask("checkpoint", loaded(**facts))
    assert (found.cause, found.ranks, found.step) == (cause, (0, 1), 0) and words in found.sentence()
    assert found.places == (() if "site" in facts else ("train.py:7",))


@pytest.mark.parametrize("facts", [
    {},
    {"fitted": 1, "unread": "b", "lacking": "a"},
    {"keys": 0, "fitted": 0, "lacking": "a"},
    {"fitted": 0, "unread": "b"},
    {"own": True, "site": ""},
])  # fmt: skip
def test_a_load_of_a_part_of_nothing_or_by_a_library_is_none_to_object_to(facts: Any) -> None:
    with pytest.raises(Abstain):
        ask("checkpoint", loaded(**facts))


def test_a_rank_that_hands_its_state_out_may_load_it_with_the_others() -> None:
    job = Golden(2)
    for one in job.ranks:
        one.writes("loaded", **{**LOADED, "own": not one.rank})
    with pytest.raises(Abstain):
        ask("checkpoint", job.ends_well().history())


def test_of_several_loads_that_change_nothing_the_first_is_told() -> None:
    job = Golden().trains(2)
    job[0].writes("loaded", **{**LOADED, "own": True, "site": "late.py:9"})
    job[1].step = 1
    job[1].writes("loaded", **{**LOADED, "own": True, "site": "soon.py:8"})
    found = Finding(
        *("checkpoint", "state not copied", (1,), 1, 0, ("soon.py:8",)),
        {"keys": 4, "unread": "", "lacking": "", "site": "soon.py:8"},
    )
    assert ask("checkpoint", job.ends_well().history()) == [found]


#: The history of a control that leaves the file `log` as nobody in these jobs writes it.
MODEL = Golden().trains(2).ends_well().leaves("log", "all").history()


def lost(job: Golden, control: History = MODEL) -> dict[str, Any]:
    """Return the evidence of the one write that was lost."""
    (found,) = ask("checkpoint", job.ends_well().history(), control)
    assert found.cause == "lost write"
    return found.evidence


def touched(*touches: tuple[int, str, str, int]) -> Golden:
    """Return a job whose ranks touched `log` one after the other: rank, mode, operation, turn."""
    job = Golden().trains(1)
    for rank, mode, op, turn in touches:
        job[rank].accesses(mode, turn, op, "log")
    return job


class TestLostWrites:
    def test_a_file_that_was_removed_is_told_by_its_path(self) -> None:
        job = touched((0, "w", "save", 0), (1, "w", "remove", 1)).leaves("other", "x")
        assert lost(job) == {
            **{"path": "log", "loser": 0, "winner": 1, "how": "removed it"},
            "events": [
                {"rank": 0, "step": 1, "op": "save", "mode": "w", "turn": 0},
                {"rank": 1, "step": 1, "op": "remove", "mode": "w", "turn": 1},
            ],
        }

    @pytest.mark.parametrize("turns", [(1, 0), (7, 5)])
    def test_turns_say_who_came_first_whatever_the_clock_says(self, turns: tuple[int, int]) -> None:
        job = touched((1, "w", "remove", turns[0]), (0, "w", "save", turns[1])).leaves("other", "x")
        evidence = lost(job)
        assert (evidence["loser"], evidence["winner"], evidence["how"]) == (0, 1, "removed it")
        assert [event["turn"] for event in evidence["events"]] == sorted(turns)

    def test_what_was_read_before_and_written_back_in_one_move_is_told(self) -> None:
        job = touched((1, "r", "open", 0), (0, "rw", "append", 1), (1, "w", "write", 2)).leaves("log", "x")
        evidence = lost(job)
        assert (evidence["loser"], evidence["winner"], evidence["how"]) == (0, 1, "wrote back what it had read before")

    def test_memory_that_was_written_back_is_no_file(self) -> None:
        job = Golden().trains(1)
        for turn, (rank, mode) in enumerate([(1, "r"), (0, "r"), (1, "w"), (0, "w")]):
            job[rank].accesses(mode, turn, "aten::add", "8:1")
        for rank, file in ((0, "a"), (1, "b")):
            job[rank].opens("log").closes("log", file)
        assert lost(job.leaves("log", "b"))["how"] == "wrote over it"


def test_each_file_that_was_left_is_looked_at() -> None:
    job = Golden().trains(2)
    for path in ("fine", "log"):
        job[0].opens(path).closes(path, "all")
    history = job.ends_well().leaves("fine", "all").leaves("log", "neither").history()
    (found,) = ask("checkpoint", history, MODEL)
    assert (found.cause, found.evidence["path"]) == ("interleaved file", "log")


def test_a_job_of_which_the_only_save_failed_has_saved_nothing() -> None:
    control = Golden().trains(1)
    control[0].saves()
    job = Golden().trains(1)
    job[0].fails_to_save()
    (found,) = ask("checkpoint", job.ends_well().history(), control.ends_well().leaves("model.pt", "a0s1").history())
    assert found.evidence == {"what": "no rank finished a save, and the control saved its first at step 1"}
