"""Two runs compared by their results alone: steps that both have digested, whatever else was looked at."""

from __future__ import annotations

from typing import Any

import pytest
from support.golden import Golden, sound

from breakrank.history.reader import History
from breakrank.judge.run_digest import Difference, digest, explain_difference, first_difference, sequences

#: An event of a rank: its kind and its facts.
Event = tuple[str, dict[str, Any]]


def told(*events: Event, rank: int = 0, ranks: int = 1) -> History:
    """Return the history of a job of which one rank has these events."""
    job = Golden(ranks)
    for kind, facts in events:
        job[rank].writes(kind, **facts)
    return job.ends_well().history()


def holds(step: int, params: str) -> Event:
    return "payload", {"of": "step", "step": step, "params": params}


def loads(step: int, **batch: Any) -> Event:
    return "payload", {"of": "load", "step": step, **batch}


def results(one: History, other: History) -> str:
    return explain_difference(one, other, results=True)


def test_a_step_that_only_one_of_two_runs_has_digested_does_not_count() -> None:
    one, other = told(holds(1, "a"), holds(2, "b")), told(holds(2, "b"), holds(3, "c"))
    assert results(one, other) == results(other, one) == ""
    assert explain_difference(one, other) != ""


def test_a_step_that_both_have_digested_counts_beside_one_that_only_one_has() -> None:
    one, other = told(holds(1, "a"), holds(2, "b")), told(holds(2, "q"), holds(3, "c"))
    assert results(one, other) == (
        "attempt 0, rank 0, step 2: params of the payload of step is b in one run, q in the other"
    )


@pytest.mark.parametrize("field", ["batch", "samples"])
def test_a_batch_counts_by_its_content_where_both_have_digested_it_and_by_its_indices_elsewhere(field: str) -> None:
    content = {"batch": "b", "samples": ["s"]}
    other = {**content, field: "other"}
    both = told(loads(1, indices=[1], **content)), told(loads(1, indices=[1], **other))
    assert f"{field} of the payload of load is" in results(*both)
    one = told(loads(1, indices=[1], **content)), told(loads(1, indices=[1]))
    assert results(*one) == results(*one[::-1]) == ""
    apart = told(loads(1, indices=[1], **content)), told(loads(1, indices=[2]))
    assert "indices of the payload of load is [1] in one run, [2] in the other" in results(*apart)


def test_a_save_counts_at_a_step_that_nobody_has_digested() -> None:
    one, other = (told(("payload", {"of": "save", "step": 1, "path": "m.pt", "done": done})) for done in (1, 2))
    assert "done of the payload of save is 1 in one run, 2 in the other" in results(one, other)


def test_a_batch_of_a_thread_at_a_pace_of_its_own_belongs_to_no_step() -> None:
    one, other = (told(loads(1, batch=batch, seq="thread-1"), holds(1, "a")) for batch in ("b", "c"))
    assert results(one, other) == ""
    assert explain_difference(one, other) != ""


def test_a_file_that_one_run_has_written_does_not_count_and_all_behind_it_does() -> None:
    write: Event = ("point", {"point": "write", "step": 1, "visit": 1, "path": "log.txt"})
    save: Event = ("point", {"point": "save", "step": 1, "visit": 1, "path": "m.pt"})
    assert results(told(write, save), told(save)) == ""
    assert "save in one run, end in the other" in results(told(write, save), told())


@pytest.mark.parametrize("results", [True, False])
def test_a_difference_is_told_with_its_place(results: bool) -> None:
    def job(params: str) -> History:
        made = Golden(3).trains(1).ended_by_us().again().trains(1)
        made[2].trains([5], params)
        return made.ends_well().history()

    assert first_difference(job("a"), job("b"), results) == Difference(
        1, 2, 2, "attempt 1, rank 2, step 2: params of the payload of step is a in one run, b in the other"
    )
    assert first_difference(job("a"), job("a"), results) is None


def test_of_differences_of_several_ranks_at_one_step_the_first_rank_is_told() -> None:
    one, other = (Golden(3), Golden(3))
    for job, params in ((one, "a"), (other, "b")):
        for rank in (2, 1):
            job[rank].trains([1], params)
    found = first_difference(one.ends_well().history(), other.ends_well().history(), results=False)
    assert found is not None and found[:3] == (0, 1, 1)


def test_a_rank_or_thread_that_one_run_lacks_is_told_of_results_as_well() -> None:
    thread: Event = ("point", {"point": "save", "visit": 1, "path": "b", "seq": "thread-1"})
    assert results(told(), told(thread)).startswith(
        "attempt 0, rank 0, thread-1, step 0: nothing more in one run, save"
    )
    assert results(told(thread), told()).endswith("save in one run, nothing more in the other")
    assert "world of the rank is 2 in one run, 1 in the other" in results(sound(2, 1), sound(1, 1))


def test_the_step_of_a_difference_is_the_last_that_either_run_had_come_to() -> None:
    one, other = Golden(1).trains(3), Golden(1).trains(2)
    found = first_difference(one.ends_well().history(), other.ends_well().history(), results=False)
    assert found is not None and (found.step, "load in one run, end in the other" in found.words) == (3, True)


def test_a_rank_that_trains_nothing_has_what_its_modules_return_for_a_result() -> None:
    def ended(**end: Any) -> History:
        job = Golden(1)
        job[0].ends(**end)
        return job.history()

    assert digest(ended(modules={"net": "a"})) != digest(ended(modules={"net": "b"}))
    assert sequences(ended(modules={"net": "a"}))[0, 0, "main"][-1] == {
        **{"kind": "end", "class": "well", "params": "p0", "state": None, "modules": {"net": "a"}, "strikes": {}}
    }


def test_a_rank_that_ended_well_below_a_launcher_has_its_parameters() -> None:
    job = Golden(1).trains(1).ends_well().says("launcher", attempt=0, status=0, ended=False, blames=[], closed=[])
    assert sequences(job.history())[0, 0, "main"][-1]["params"] == "p1"


def test_results_do_not_differ_by_the_names_that_threads_have_where_accesses_are_watched() -> None:
    def run(thread: str, group: str = "1") -> History:
        job = Golden(1).trains(1)
        job[0].writes("point", seq=thread, point="collective", visit=1, op="broadcast_", group=group, c=7)
        return job.ends_well().history()

    assert explain_difference(run("thread-1"), run("other-1"), results=True) == ""
    assert explain_difference(run("thread-1"), run("other-1")) != ""
    assert "thread-" in explain_difference(run("thread-1"), run("other-1", group="2"), results=True)
