"""The digest changes with what the run did, and with nothing else."""

from __future__ import annotations

import dataclasses
from signal import SIGKILL, SIGTERM

import pytest
from support.golden import Golden, killed, sound

from breakrank.history.reader import History
from breakrank.judge.run_digest import digest, explain_difference


def trained(
    params: str = "p2", sample: int = 10, shape: int = 3, path: str = "model.pt", file: str | None = None
) -> History:
    """Return a job of two ranks and two steps; the second step of rank 1 is as asked for."""
    job = Golden().trains(1)
    job[0].trains([20])
    job[1].loads([sample]).enters("forward").enters("collective", shapes=[[shape]]).ends_step(params)
    job[1].saves(path, file)
    return job.ends_well().history()


@pytest.mark.parametrize(
    "other",
    [
        trained(params="one bit flipped"),
        trained(sample=11),
        trained(shape=4),
        trained(path="other.pt"),
        trained(file="other bytes"),
        sound(steps=2),
        sound(ranks=3),
    ],
    ids=["parameters", "sample", "shape", "path", "file", "points", "ranks"],
)
def test_the_digest_changes_with_what_a_rank_did(other: History) -> None:
    assert digest(other) != digest(trained())


def test_the_digest_changes_with_the_parameters_at_the_end_alone() -> None:
    job = Golden().trains(2)
    job[1].ends(params="flipped at the end")
    assert digest(job.ends_well().history()) != digest(sound(steps=2))


def test_the_digest_changes_with_the_result_that_the_program_named() -> None:
    def counted(updates: int) -> History:
        job = Golden(1).trains(1)
        job[0].ends(state={"updates": updates})
        return job.history()

    assert digest(counted(6)) != digest(counted(7))


@pytest.mark.parametrize("other", [killed(step=3), killed("collective"), killed("backward")])
def test_the_digest_changes_with_the_place_of_the_strike(other: Golden) -> None:
    assert digest(other.history()) != digest(killed().history())


def test_the_digest_changes_with_how_a_rank_ended() -> None:
    def ended(error: str) -> str:
        job = Golden().trains(1)
        job[0].reports(error)
        job[1].dies(SIGKILL)
        return digest(job.history())

    assert ended("ValueError") != ended("RuntimeError")


def test_the_digest_is_the_same_at_other_times_and_in_other_processes() -> None:
    early, late = Golden(pid=100), Golden(pid=4000, clock=77.5)
    assert digest(early.trains(2).ends_well().history()) == digest(late.trains(2).ends_well().history())


def test_the_digest_is_the_same_however_the_ranks_took_turns_at_full_speed() -> None:
    together, apart = Golden(), Golden()
    together.trains(2)
    apart.trains(2, only=1).trains(2, only=0)
    assert digest(together.ends_well().history()) == digest(apart.ends_well().history())


def test_the_digest_is_the_same_whatever_a_message_says_and_wherever_it_was_raised() -> None:
    def reported(message: str) -> str:
        job = Golden().trains(1)
        job[0].reports("RuntimeError", message).writes("note", text=message)
        return digest(job.ended_by_us().history())

    assert reported("[127.0.0.1]:4711 closed") == reported("[127.0.0.1]:4712 reset")


def test_the_digest_does_not_depend_on_where_files_outside_the_working_folder_lie() -> None:
    assert digest(trained(path="/tmp/a/model.pt")) == digest(trained(path="/tmp/b/model.pt"))


def test_the_digest_knows_shared_storage_by_first_use_and_not_by_inode() -> None:
    def shared(keys: tuple[str, str], turns: tuple[int, int] = (1, 2)) -> str:
        job = Golden().trains(1)
        job[0].accesses("r", turns[0], key=keys[0])
        job[1].accesses("w", turns[1], key=keys[1])
        return digest(job.ends_well().history())

    assert shared(("8:1:0", "8:2:0")) == shared(("9:77:0", "9:55:0"))
    assert shared(("8:1:0", "8:2:0")) != shared(("8:1:0", "8:1:0"))
    assert shared(("8:1:0", "8:2:0"), (1, 2)) != shared(("8:1:0", "8:2:0"), (2, 1))


def test_what_a_survivor_did_after_the_common_collectives_does_not_count() -> None:
    def survivor_enters(*points: str) -> str:
        job = Golden().trains(1)
        for one in job.ranks:
            one.loads([1]).enters("collective")
        job[1].is_struck(status=-SIGKILL)
        for point in points:
            job[0].enters(point)
        job[0].ends(code=1)
        return digest(job.history())

    assert survivor_enters() == survivor_enters("optimize") == survivor_enters("optimize", "collective", "forward")


def test_storage_that_a_survivor_used_only_after_the_cut_does_not_rename_what_was_used_before() -> None:
    def survivor_uses(*keys: str) -> str:
        job = Golden()
        job[1].accesses("r", 1, key="8:1:0")
        for one in job.ranks:
            one.enters("collective")
        job[1].is_struck(status=-SIGKILL)
        for turn, key in enumerate(keys, 2):
            job[0].accesses("w", turn, key=key)
        job[0].reports("RuntimeError")
        return digest(job.history())

    assert survivor_uses() == survivor_uses("8:7:0", "8:8:0")


def test_what_a_survivor_did_before_the_last_common_collective_counts() -> None:
    job = Golden().trains(1)
    for one in job.ranks:
        one.loads([1 + one.rank]).enters("collective")
    job[1].is_struck(status=-SIGKILL)
    job[0].reports("RuntimeError")
    changed = job.history()
    events = tuple({**e, "indices": [5]} if e.get("indices") == [1] else e for e in changed.ranks[0, 0].events)
    ranks = {**changed.ranks, (0, 0): dataclasses.replace(changed.ranks[0, 0], events=events)}
    assert digest(dataclasses.replace(changed, ranks=ranks)) != digest(changed)


def test_a_struck_rank_counts_up_to_its_strike_beyond_the_common_collectives() -> None:
    assert digest(killed("optimize").history()) != digest(killed("forward").history())


def test_a_helper_thread_is_a_sequence_of_its_own_and_does_not_count_where_a_rank_was_struck() -> None:
    def with_helper(job: Golden, early: bool) -> str:
        if early:
            job[0].writes("point", point="load", visit=1, seq="worker-0")
        job.trains(1)
        if not early:
            job[0].writes("point", point="load", visit=1, seq="worker-0")
            job[0].writes("point", point="load", visit=2, seq="worker-0")
        job[1].is_struck(status=-SIGKILL)
        job[0].reports("RuntimeError")
        return digest(job.history())

    assert with_helper(Golden(), early=True) == with_helper(Golden(), early=False)


def helped(*paths: str, steps: int = 2, seq: str = "thread-1", kind: str = "write", **facts: object) -> str:
    """Return the digest of a rank with a thread that touches some paths, the first one before the last step."""
    job = Golden(1).trains(steps - 1)
    for visit, path in enumerate(paths, 1):
        job[0].writes("point", point=kind, visit=visit, path=path, seq=seq, **facts)
        if visit == 1:
            job.trains(1)
    return digest(job.ends_well().history())


def test_how_often_a_thread_did_a_thing_at_a_pace_of_its_own_and_at_which_step_does_not_count() -> None:
    assert helped("log", "log", "log") == helped("log", "log", "log", "log", "log")
    assert helped("log", "index", "log", "index") == helped("log", "index", "log")
    job = Golden(1).trains(1)
    job[0].writes("point", point="write", visit=1, path="log", seq="thread-1", step=0)
    assert helped("log") == digest(job.trains(1).ends_well().history())


def test_what_a_thread_did_and_in_which_order_it_did_so_first_counts() -> None:
    others = [helped("other"), helped("log", "index"), helped("index", "log"), helped("log", kind="save")]
    others.append(helped("log", seq="thread-2"))
    assert len({helped("log"), *others}) == 6


def test_how_often_a_thread_does_a_thing_counts_under_a_schedule_and_so_do_its_collectives() -> None:
    assert helped("log", "log", pick=1) != helped("log", "log", "log", pick=1)
    assert helped("log", "log", seq="other-1", pick=1) == helped("log", "log", "log", seq="other-1", pick=1)
    assert helped("", kind="collective") != helped("", "", kind="collective")


def test_a_difference_is_explained_by_its_first_coordinate() -> None:
    said = explain_difference(trained(params="a"), trained(params="b"))
    assert said == "attempt 0, rank 1, step 2: params of the payload of step is a in one run, b in the other"


def test_a_difference_of_payloads_names_the_first_value_that_differs() -> None:
    said = explain_difference(trained(), sound(steps=2))
    assert said == "attempt 0, rank 0, step 2: indices of the payload of load is [20] in one run, [10] in the other"


def test_a_difference_of_points_names_both() -> None:
    one, other = Golden(1), Golden(1)
    one[0].enters("load").enters("collective", op="broadcast_")
    other[0].enters("load").enters("forward")
    said = explain_difference(one.ends_well().history(), other.ends_well().history())
    assert said == "attempt 0, rank 0, step 1: collective in one run, forward in the other"


def test_a_run_that_goes_on_where_the_other_one_ended_is_explained_by_its_first_point_more() -> None:
    said = explain_difference(sound(steps=2), sound(steps=3))
    assert said == "attempt 0, rank 0, step 3: end in one run, load in the other"


def test_equal_runs_have_nothing_to_explain() -> None:
    assert explain_difference(trained(), trained()) == ""


def test_a_step_that_one_run_alone_has_digested_is_no_difference_of_results() -> None:
    def job(digested: bool, last: str = "p3") -> History:
        made = Golden(1)
        for step in range(3):
            made[0].enters("load")
            if digested or step == 2:
                made[0].writes("payload", of="load", indices=None, samples=None, batch=f"b{step}")
                made[0].ends_step(last if step == 2 else f"p{step}")
            else:
                made[0].writes("payload", of="load", indices=None).enters("step")
                made[0].done = made[0].step
        return made.ends_well().history()

    assert explain_difference(job(True), job(False), results=True) == ""
    assert "step 3" in explain_difference(job(True), job(False, last="other"), results=True)


def test_who_came_before_whom_is_no_difference_of_results() -> None:
    """A thread without a schedule set an event before the main thread came to wait for it, or after."""

    def waited(twice: bool, params: str) -> History:
        job = Golden(1).trains(1)
        for lock in ("lock:1", "lock:2")[: 1 + twice]:
            job[0].writes("sync", do="acquire", key=lock, pick=1)
        job[0].trains([1], params)
        return job.ends_well().history()

    assert explain_difference(waited(True, "a"), waited(False, "a"))
    assert explain_difference(waited(True, "a"), waited(False, "a"), results=True) == ""
    assert "params" in explain_difference(waited(True, "a"), waited(False, "b"), results=True)


def test_who_makes_a_folder_that_all_need_is_no_difference_of_results() -> None:
    def made(first: int) -> History:
        job = Golden().trains(1)
        job[first].enters("write", path="out", how="mkdir")
        return job.trains(1).ends_well().history()

    assert explain_difference(made(0), made(1))
    assert explain_difference(made(0), made(1), results=True) == ""


def test_under_a_launcher_it_does_not_count_which_rank_it_ends_before_that_can_say_something() -> None:
    """Rank 1 is killed; rank 0 loses its connection at once, or has not come so far when its launcher ends it."""

    def under_a_launcher(quick: bool) -> History:
        job = Golden().trains(1)
        job[1].enters("backward").is_struck(status=-SIGKILL)
        if quick:
            job[0].loads([1]).enters("forward").enters("backward").enters("collective").reports("RuntimeError").exits(1)
        else:
            job[0].exits(-SIGTERM, by_us=True)
        job.says("launcher", attempt=0, status=1, ended=False, blames=[1], closed=[])
        return job.history()

    assert explain_difference(under_a_launcher(True), under_a_launcher(False)) == ""


@pytest.mark.parametrize(("writers", "alike"), [((0, 1), True), ((0,), False)])
def test_what_lies_where_several_ranks_write_with_nobody_to_schedule_them_does_not_count(writers, alike) -> None:
    def run(file: str | None) -> History:
        job = Golden(2)
        for rank in writers:
            job[rank].enters("write", path="model.keras", how="open")
        job[0].writes("payload", of="save", path="model.keras", done=1, file=file)
        return job.ends_well().history()

    assert (digest(run("whole")) == digest(run(None))) is alike
