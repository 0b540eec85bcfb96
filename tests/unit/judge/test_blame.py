"""Blame names the first cause and not its victims, from the history alone."""

from __future__ import annotations

from signal import SIGABRT, SIGKILL, SIGSEGV

from support.golden import Golden, killed, sound

from breakrank.judge.blame import accusations, blame
from breakrank.oracles import Terms, all_oracles
from breakrank.verdict import Finding

LOST = "[gloo] Connection closed by peer [127.0.0.1]:4711"


def named(job: Golden, *findings: Finding) -> tuple[int, ...]:
    """Return the ranks that are blamed."""
    return blame(job.history().without_faults(), findings).ranks


def test_a_rank_that_died_of_a_signal_is_to_blame_and_not_the_one_that_lost_its_connection() -> None:
    found = blame(killed().history().without_faults(), [])
    assert found.words() == "rank 1: died of SIGKILL at step 2"


def test_the_first_to_die_is_to_blame_and_not_the_one_that_died_of_it() -> None:
    job = Golden(3).trains(1)
    job[2].dies(SIGSEGV)
    job[0].dies(SIGABRT)
    job[1].reports("RuntimeError", LOST)
    assert named(job) == (2,)


def test_ranks_that_were_killed_together_are_to_blame_together() -> None:
    job = Golden(3).trains(1)
    job[2].dies(SIGKILL)
    job[0].dies(SIGKILL)
    job[1].reports("RuntimeError", LOST)
    assert named(job) == (0, 2)


def test_a_rank_that_stands_still_is_to_blame_for_the_wait() -> None:
    job = Golden().trains(1)
    job[0].enters("collective")
    assert named(job.hangs([0], "peer stopped", peer=1)) == (1,)


def test_a_rank_that_ended_early_is_to_blame_for_the_wait() -> None:
    job = Golden().trains(1)
    job[1].ends()
    job[0].enters("collective")
    assert named(job.hangs([0], "peer ended", peer=1)) == (1,)


def test_a_rank_that_left_with_exit_code_0_and_work_undone_is_to_blame_for_a_lost_connection() -> None:
    job = Golden().trains(1)
    job[1].exits(0)
    job[0].reports("RuntimeError", LOST)
    undone = all_oracles()["ends"](job.history(), None, Terms(2, 3))
    assert named(job, *undone) == (1,)


def test_a_rank_that_left_without_a_word_is_to_blame() -> None:
    job = Golden().trains(1)
    job[1].exits(3)
    job[0].reports("RuntimeError", LOST)
    assert named(job) == (1,)


def test_the_first_rank_to_report_for_itself_is_to_blame_although_a_victim_reported_earlier() -> None:
    job = Golden().trains(1)
    job[0].reports("RuntimeError", LOST)
    job[1].reports("ValueError", "expected 10 classes")
    assert named(job) == (1,)


def test_of_two_ranks_that_report_for_themselves_the_earlier_one_is_to_blame() -> None:
    job = Golden().trains(1)
    job[1].reports("ValueError", "expected 10 classes")
    job[0].reports("KeyError", "'step'")
    assert named(job) == (1,)


def test_a_rank_that_reported_and_then_aborted_is_blamed_for_its_report() -> None:
    job = Golden().trains(1)
    job[0].writes("report", type="ValueError", message="bad shard", code=1, frames=[]).dies(SIGABRT)
    job[1].reports("RuntimeError", LOST)
    assert blame(job.history(), []).words() == "rank 0: reported ValueError: bad shard at step 1"


def test_ranks_that_report_the_same_at_the_same_step_are_to_blame_together() -> None:
    job = Golden(3).trains(1)
    job[2].reports("ValueError", "bad shard 2")
    job[0].reports("ValueError", "bad shard 0")
    job[1].reports("RuntimeError", LOST)
    assert named(job) == (0, 2)


def test_a_rank_that_did_not_come_is_to_blame_for_a_time_out() -> None:
    job = Golden().trains(1)
    job[1].enters("load")
    job[0].loads([1]).enters("collective").reports("RuntimeError", "Timed out waiting 8000ms for recv")
    job.ended_by_us()
    found = blame(job.history(), [])
    assert found.words() == "rank 1: did not come to allreduce_ at step 2, where rank 0 waited"


def test_nobody_is_to_blame_for_a_connection_lost_while_every_peer_lived() -> None:
    job = Golden().trains(1)
    job[0].reports("RuntimeError", LOST)
    job[1].reports("RuntimeError", LOST)
    assert named(job) == ()


def test_with_whom_a_wait_lies_is_what_the_hung_event_says() -> None:
    job = Golden().trains(1)
    job[0].loads([1]).enters("collective")
    job[1].loads([1]).enters("forward")
    hung = job.hangs([0, 1], "participant missing", 1, "made other collectives at step 2 than at its earlier steps")
    assert blame(hung.history(), []).words() == "rank 1: made other collectives at step 2 than at its earlier steps"


def test_a_rank_that_was_never_started_is_not_to_blame_but_said_to_be_missing() -> None:
    found = blame(Golden().hangs([0, 1], "rank missing", 2, "no process was started as rank 2").history(), [])
    assert (found.ranks, found.reason) == ((), "no process was started as rank 2")


def test_nobody_is_to_blame_where_nothing_shows_for_whom_ranks_wait() -> None:
    job = Golden().trains(1)
    job[0].enters("collective")
    job[1].enters("collective")
    assert named(job.hangs([0, 1], "deadlock", shown_by="")) == ()


def test_what_reports_and_the_launcher_say_stands_beside_the_blame() -> None:
    job = Golden(3).trains(1)
    job[2].reports("RuntimeError", "rank 1 failed to pass monitoredBarrier")
    job[0].reports("RuntimeError", LOST)
    job.says("launcher", attempt=0, status=1, ended=False, blames=[2], closed=[])
    said = [(one.by, one.ranks) for one in accusations(job.history())]
    assert said == [
        ("RuntimeError in rank 2", (1,)),
        ("RuntimeError in rank 0", ()),
        ("the launcher", (2,)),
    ]


def test_the_replica_that_differs_is_to_blame() -> None:
    job = Golden(3).trains(2)
    job[1].ends(params="flipped")
    findings = all_oracles()["replicas"](job.ends_well().history(), None, Terms(3, 2))
    assert named(job, *findings) == (1,)


def test_both_writers_are_to_blame_for_a_lost_update() -> None:
    assert named(Golden().trains(1).ends_well(), Finding("control", "lost update", (0, 1), 2)) == (0, 1)


def test_nobody_stands_out_where_every_rank_has_the_same_wrong_result() -> None:
    found = blame(sound(), [Finding("control", "wrong result", (0, 1), 2)])
    assert found.ranks == ()
    assert found.reason.startswith("no rank stands out")


def test_nobody_is_to_blame_where_nothing_happened() -> None:
    assert blame(sound(), []).words() == "nobody can be named"


def test_blame_is_for_the_last_attempt() -> None:
    job = killed().again()
    assert named(job.trains(3).ends_well()) == ()


def test_a_connection_lost_between_two_ranks_that_live_is_the_fault_of_neither() -> None:
    job = Golden().trains(1)
    job[0].enters("collective").reports("RuntimeError", LOST)
    job[1].enters("collective").reports("RuntimeError", LOST)
    found = blame(job.history().without_faults(), [])
    assert found.ranks == ()
    assert found.words().startswith("the link between ranks 0 and 1: rank 0 lost its connection while")


def test_a_rank_whose_step_lacks_a_collective_of_its_earlier_ones_is_to_blame_for_a_connection_lost_later() -> None:
    job = Golden()
    for step in (1, 2, 3):
        for one in job.ranks:
            one.enters("backward").enters("collective")
            if (one.rank, step) != (1, 2):
                one.enters("collective")
            one.ends_step()
    job[0].enters("collective").reports("RuntimeError", LOST)
    found = blame(job.history().without_faults(), [])
    assert found.words() == "rank 1: made other collectives at step 2 than before"


def test_a_program_that_changes_its_way_on_all_ranks_at_once_is_no_reason_to_blame_one() -> None:
    job = Golden().trains(1)
    for one in job.ranks:
        one.enters("backward").enters("collective").enters("collective").ends_step()
    job[0].enters("collective").reports("RuntimeError", LOST)
    assert blame(job.history().without_faults(), []).ranks == ()


def test_among_many_ranks_a_lost_link_is_known_from_one_of_its_ends() -> None:
    job = Golden(3).trains(1)
    for rank in (2, 0, 1):
        job[rank].enters("collective").reports("RuntimeError", LOST)
    found = blame(job.history().without_faults(), [])
    assert found.words() == "a link: rank 2 lost its connection while every other rank still ran"


def test_a_rank_that_another_ones_report_names_is_to_blame_whoever_reported_first() -> None:
    for order in ([0, 1], [1, 0]):
        job = Golden().trains(1)
        for rank in order:
            job[rank].reports("RuntimeError", "cannot allocate" if rank == 1 else "rank 1 ran out of memory")
        assert named(job) == (1,)


def test_a_report_that_names_its_own_rank_or_none_of_the_job_accuses_nobody() -> None:
    for message in ("rank 0 has no such label", "no rank 7 in this job"):
        job = Golden().trains(1)
        job[0].reports("ValueError", message)
        job[1].reports("RuntimeError", LOST)
        assert named(job) == (0,)


def told(*sources: str) -> Golden:
    """Return a job whose ranks logged the source of their data."""
    job = Golden(len(sources)).trains(1)
    for rank, source in enumerate(sources):
        job[rank].writes("told", name="data", values={"source": source})
    return job


def test_of_ranks_that_report_alike_the_one_that_told_something_else_is_to_blame() -> None:
    job = told("a", "b", "a")
    for one in job.ranks:
        one.reports("ValueError", "the data differs")
    assert blame(job.history().without_faults(), []).words() == "rank 1: told another data than the others at step 1"


def test_of_ranks_that_are_all_wrong_the_one_that_told_something_else_is_to_blame() -> None:
    wrong = Finding("control", "wrong result", (0, 1, 2), 1)
    assert named(told("a", "a", "b").ends_well(), wrong) == (2,)


def test_nobody_stands_out_where_all_or_none_told_something_else() -> None:
    wrong = Finding("control", "wrong result", (0, 1, 2), 1)
    assert named(told("a", "b", "c").ends_well(), wrong) == ()
    assert named(told("a", "a", "a").ends_well(), wrong) == ()


def test_all_ranks_that_one_report_lists_are_to_blame() -> None:
    job = Golden(ranks=4).trains(2)
    job[0].reports("RuntimeError", "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 1000 ms")
    job[2].reports("RuntimeError", "Rank 2 reached monitoredBarrier, but received errors while waiting for send/recv")
    found = blame(job.ended_by_us().history(), [])
    assert found.ranks == (1, 3) and "is named by rank 0" in found.reason


def test_who_only_waited_in_vain_for_the_accuser_does_not_accuse_it() -> None:
    job = Golden(ranks=3).trains(2)
    said = "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0"
    job[2].reports("RuntimeError", said)
    job[0].reports("RuntimeError", "[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 1000 ms")
    assert blame(job.ended_by_us().history(), []).ranks == (1,)


def test_of_three_ranks_the_one_that_had_left_is_to_blame_for_a_store_that_is_gone() -> None:
    job = Golden(ranks=3).trains(1)
    job[1].ends()
    job[2].reports("DistNetworkError", "Failed to recv, got 0 bytes. Connection was likely closed.")
    assert blame(job.ended_by_us().history(), []).ranks == (1,)


def test_a_rank_without_resources_reports_for_itself() -> None:
    job = Golden(ranks=3).trains(2)
    job[1].reports("BlockingIOError", "[Errno 11] Resource temporarily unavailable")
    job[0].reports("RuntimeError", "Connection closed by peer")
    assert blame(job.ended_by_us().history(), []).ranks == (1,)
