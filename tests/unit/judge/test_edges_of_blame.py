"""Blame in less usual runs: whom a person would accuse wrongly if one of its conditions were lost."""

from __future__ import annotations

from signal import SIGABRT, SIGKILL, SIGSEGV
from typing import Any

import pytest
from support.golden import Golden, sound

from breakrank.history.reader import History
from breakrank.judge.blame import Accusation, accusations, blame
from breakrank.verdict import Blame, Finding

LOST = "[gloo] Connection closed by peer [127.0.0.1]:4711"
LATE = "Timed out waiting 8000ms for recv"


def words(job: Golden, *findings: Finding) -> str:
    """Return what is said of whom to blame."""
    return blame(job.history().without_faults(), findings).words()


def ranks(job: Golden, *findings: Finding) -> tuple[int, ...]:
    """Return the ranks that are blamed."""
    return blame(job.history().without_faults(), findings).ranks


class TestAccusations:
    def test_an_accusation_says_who_blamed_whom_and_when(self) -> None:
        assert Accusation("the launcher", (1, 2)).words() == "the launcher blamed ranks 1 and 2"
        assert Accusation("KeyError in rank 0", (), 2.34).words() == (
            "KeyError in rank 0 blamed no rank, 2.3 s after the start"
        )

    def test_there_are_none_where_nothing_was_started(self) -> None:
        assert accusations(History()) == ()

    def test_times_count_from_the_start_of_the_first_rank_of_the_last_attempt(self) -> None:
        job = Golden(clock=5.0).trains(1)
        job[0].reports("KeyError", "rank 1 is slow")
        job.ended_by_us().again()
        started = min(e["t"] for e in job.conductor if e["kind"] == "spawned" and e["attempt"] == 1)
        job.trains(1)
        job[1].reports("ValueError", "rank 0 sent nothing")
        told = next(e["t"] for e in job.history().ranks[1, 1].events if e["kind"] == "report")
        job.ended_by_us()
        assert accusations(job.history()) == (Accusation("ValueError in rank 1", (0,), round(told - started, 3)),)

    def test_a_rank_that_exits_without_an_exception_accuses_nobody(self) -> None:
        job = Golden().trains(1)
        job[0].exits(3)
        job[1].writes("report", type="", message="", code=2, frames=[]).exits(2)
        assert accusations(job.history()) == ()

    def test_a_launcher_that_ended_well_accuses_nobody(self) -> None:
        job = Golden().trains(1).ends_well()
        job.says("launcher", attempt=0, status=0, ended=False, blames=[1], closed=[])
        assert accusations(job.history()) == ()

    def test_where_no_start_is_on_record_no_time_is_told(self) -> None:
        job = Golden().trains(1)
        job[0].reports("KeyError", "'step'")
        history = job.history()
        bare = History(history.ranks, tuple(e for e in history.conductor if e["kind"] != "spawned"))
        assert accusations(bare) == (Accusation("KeyError in rank 0", (), None),)


class TestCollectives:
    @pytest.mark.parametrize(
        ("cause", "of", "guilty"),
        [
            ("collective mismatch", (0, 1), ()),
            ("collective mismatch", (1,), (1,)),
            ("wrong collective result", (0, 1), ()),
            ("wrong collective result", (1,), (1,)),
        ],
    )
    def test_a_call_that_did_not_match_is_to_blame_before_whoever_died_of_it(
        self, cause: str, of: tuple[int, ...], guilty: tuple[int, ...]
    ) -> None:
        job = Golden().trains(1)
        job[0].dies(SIGSEGV)
        job[1].dies(SIGSEGV)
        finding = Finding("collectives", cause, of, 1, evidence={"what": "x", "how": "y"})
        found = blame(job.history(), [finding])
        assert (found.ranks, found.reason) == (guilty, finding.sentence())

    def test_all_that_called_it_are_as_many_as_its_evidence_says(self) -> None:
        job = Golden(3).trains(1)
        job[2].dies(SIGSEGV)
        for callers, guilty in ((2, ()), (3, (0, 1))):
            finding = Finding("collectives", "collective mismatch", (0, 1), 1, evidence={"callers": callers})
            assert ranks(job, finding) == guilty

    def test_a_call_of_an_earlier_attempt_is_not(self) -> None:
        job = Golden().trains(1)
        job.ended_by_us().again().trains(1)
        job[1].dies(SIGSEGV)
        job[0].ends()
        early = Finding("collectives", "collective mismatch", (0,), 1, 0)
        assert ranks(job, early) == (1,)

    def test_a_finding_of_another_oracle_is_not(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGSEGV)
        assert ranks(job, Finding("control", "wrong result", (0,), 1)) == (1,)


class TestDeaths:
    def test_of_ranks_that_died_of_other_signals_the_first_is_to_blame_and_its_step_is_told(self) -> None:
        job = Golden(3).trains(1)
        job[1].enters("load").dies(SIGABRT)
        job[0].dies(SIGKILL)
        job[2].ends()
        assert words(job) == "rank 1: died of SIGABRT at step 2"

    def test_with_a_rank_that_was_killed_first_only_those_that_were_killed_are_to_blame(self) -> None:
        job = Golden(3).trains(1)
        job[2].dies(SIGKILL)
        job[0].dies(SIGABRT)
        job[1].dies(SIGKILL)
        assert words(job) == "ranks 1 and 2: died of SIGKILL at step 1"

    def test_a_rank_whose_end_nobody_saw_died_last(self) -> None:
        job = Golden(2).trains(1)
        job[0].dies(SIGSEGV)
        job[1].dies(SIGABRT)
        history = job.history()
        unseen = tuple(e for e in history.conductor if e["kind"] != "exit" or e["rank"] != 0)
        assert blame(History(history.ranks, unseen), []).ranks == (1,)


class TestWaits:
    def test_a_wait_of_an_earlier_attempt_blames_nobody(self) -> None:
        job = Golden().trains(1)
        job[0].enters("collective")
        job.hangs([0], "peer stopped", peer=1).again().trains(1).ends_well()
        assert ranks(job) == ()

    def test_a_rank_that_left_something_behind_that_holds_its_connections_is_to_blame(self) -> None:
        job = Golden().trains(1)
        job[0].enters("collective")
        job[1].ends()
        job.hangs([0], "connection held by orphan", peer=1)
        assert words(job) == "rank 1: ended, and what it left behind holds its connections open"

    def test_each_kind_of_wait_has_its_words(self) -> None:
        said = {}
        for why in ("peer stopped", "peer ended"):
            job = Golden().trains(1)
            job[0].enters("collective")
            said[why] = words(job.hangs([0], why, peer=1))
        assert said == {
            "peer stopped": "rank 1: stands still while others wait for it",
            "peer ended": "rank 1: ended while others wait for it",
        }

    def test_several_ranks_that_do_not_come_are_named_once_each(self) -> None:
        job = Golden(3).trains(1)
        job[0].enters("collective")
        where = {"attempt": 0, "ranks": [0], "waiting": [], "seconds": 1.0, "why": "peer stopped", "peer": 2}
        job.says("hung", peers=[2], **where).says("hung", peers=[1, 2], **where)
        assert ranks(job.ended_by_us()) == (1, 2)

    def test_a_hang_without_a_peer_says_who_waited(self) -> None:
        job = Golden(3).trains(1)
        found = blame(job.hangs([2, 0], "deadline", shown_by="").history(), [])
        assert (found.ranks, found.reason) == ((), "ranks 0 and 2 waited, and nothing shows for whom")

    def test_a_hang_in_which_ranks_lack_each_other_says_that_nothing_shows_who_went_astray(self) -> None:
        job = Golden().trains(1)
        waiting = [{"rank": rank, "step": 1, "op": "barrier", "lacks": [1 - rank]} for rank in (0, 1)]
        where = {"attempt": 0, "ranks": [0, 1], "waiting": waiting, "seconds": 1.0, "peer": None, "peers": []}
        job.says("hung", why="participant missing", shown_by="", **where)
        found = blame(job.ended_by_us().history(), [])
        said = "ranks 0 and 1 waited, and nothing shows which of them went another way"
        assert (found.ranks, found.reason) == ((), said)

    def test_a_hang_of_an_earlier_attempt_does_not_explain_the_last_one(self) -> None:
        job = Golden().trains(1).hangs([0], "deadline", peer=1).again().trains(1)
        assert blame(job.ends_well().history(), []).words() == "nobody can be named"


class TestLeaving:
    def test_ranks_that_left_are_named_with_the_exit_code_and_the_step(self) -> None:
        job = Golden(3).trains(1)
        job[2].enters("load").exits(5)
        job[0].exits(0)
        job[1].reports("RuntimeError", LOST)
        assert words(job) == "rank 2: left with exit code 5 at step 2, and said nothing"

    def test_a_rank_that_we_ended_or_that_came_to_its_end_did_not_leave(self) -> None:
        job = Golden(3).trains(1)
        job[0].exits(1, by_us=True)
        job[1].ends()
        job[2].reports("ValueError", "bad shard")
        assert words(job) == "rank 2: reported ValueError: bad shard at step 1"

    def test_work_that_an_earlier_attempt_left_undone_is_not_the_last_ones(self) -> None:
        job = Golden().trains(1).ends_well()
        job.again().trains(3).ends_well()
        assert ranks(job, Finding("ends", "training incomplete", (1,), 1, 0)) == (1,)
        job[0].reports("ValueError", "bad shard")
        assert ranks(job, Finding("ends", "training incomplete", (1,), 1, 0)) == (0,)

    def test_another_finding_does_not_say_that_a_rank_left_its_work(self) -> None:
        job = Golden().trains(1)
        job[1].ends()
        job[0].reports("ValueError", "bad shard")
        assert ranks(job, Finding("finite", "non-finite value", (1,), 1, evidence={"what": "x"})) == (0,)


class TestReports:
    def test_ranks_that_report_one_type_at_different_steps_do_not_report_the_same(self) -> None:
        job = Golden(3).trains(1)
        job[0].reports("ValueError", "bad shard")
        job[1].enters("load").reports("ValueError", "bad shard")
        job[2].reports("RuntimeError", LOST)
        assert ranks(job) == (0,)

    def test_what_a_report_says_of_another_rank_is_told_with_it(self) -> None:
        job = Golden(3).trains(1)
        job[0].reports("RuntimeError", "rank 2 ran out of memory")
        job[1].reports("ValueError", "rank 2 sent nothing")
        job[2].ends()
        assert words(job) == "rank 2: is named by rank 0: RuntimeError: rank 2 ran out of memory"

    def test_every_rank_that_a_report_names_is_to_blame(self) -> None:
        job = Golden(3).trains(1)
        job[0].reports("RuntimeError", "rank 1 and rank 2 sent nothing")
        job[1].ends()
        job[2].ends()
        assert ranks(job) == (1, 2)

    def test_a_victim_that_names_a_rank_accuses_nobody(self) -> None:
        job = Golden(3).trains(1)
        job[0].reports("RuntimeError", f"{LOST} of rank 2")
        job[1].reports("ValueError", "bad shard")
        job[2].ends()
        assert ranks(job) == (1,)

    def test_ranks_that_had_ended_when_a_connection_was_lost_are_to_blame(self) -> None:
        job = Golden(3).trains(1)
        job[1].ends()
        job[0].reports("RuntimeError", LOST)
        job[2].ends()
        assert words(job) == "rank 1: had ended when rank 0 lost its connection"

    def test_a_rank_that_ended_after_the_connection_was_lost_is_not(self) -> None:
        job = Golden(3).trains(1)
        job[0].reports("RuntimeError", LOST)
        job[1].ends()
        job[2].ends()
        assert words(job) == "a link: rank 0 lost its connection while every other rank still ran"

    def test_a_rank_that_is_through_after_fewer_collectives_is_to_blame_whichever_end_was_seen_first(self) -> None:
        for leaves_first in (True, False):
            job = Golden().trains(1)
            job[0].enters("collective").enters("collective")
            if leaves_first:
                job[1].ends()
            job[0].reports("RuntimeError", LOST)
            if not leaves_first:
                job[1].ends()
            said = "rank 1: was through with its work after 1 collective, when rank 0 called all_reduce"
            assert words(job).startswith(said) and words(job).endswith(" as number 3")

    def test_a_rank_that_skipped_a_backward_pass_is_told_of_with_the_step(self) -> None:
        job = Golden().trains(1)
        job[1].enters("forward").enters("forward").enters("backward").enters("step")
        job[0].enters("forward").enters("backward").enters("step").enters("collective").enters("collective")
        job[0].reports("RuntimeError", LOST)
        job[1].ends()
        assert "rank 1 had made 2 forward passes and 1 backward in step" in words(job)

    def test_ranks_that_made_as_many_collectives_did_come(self) -> None:
        job = Golden(3).trains(1)
        for rank in (0, 2):
            job[rank].enters("collective", op="broadcast_")
        job[0].reports("RuntimeError", LATE)
        job.ended_by_us()
        assert words(job) == "rank 1: did not come to broadcast_ at step 1, where rank 0 waited"

    def test_the_last_of_its_collectives_is_where_it_waited(self) -> None:
        job = Golden().trains(1)
        for op in ("broadcast_", "allgather_", "reduce_"):
            job[0].enters("collective", op=op)
        job[0].reports("RuntimeError", LATE)
        assert words(job.ended_by_us()) == "rank 1: did not come to reduce_ at step 1, where rank 0 waited"

    def test_a_collective_of_which_no_operator_is_on_record_is_told_as_one(self) -> None:
        job = Golden().trains(1)
        job[0].writes("point", point="collective", visit=2).reports("RuntimeError", LATE)
        assert words(job.ended_by_us()) == "rank 1: did not come to a collective at step 1, where rank 0 waited"

    def test_a_wait_in_vain_in_which_all_had_come_is_the_fault_of_no_rank(self) -> None:
        job = Golden().trains(1)
        for one in job.ranks:
            one.enters("collective")
        job[0].reports("RuntimeError", LATE)
        found = blame(job.ended_by_us().history(), [])
        assert (found.ranks, found.reason) == (
            (),
            f"rank 0 was the first to report (RuntimeError: {LATE}), and no peer had ended before",
        )

    def test_a_lost_connection_with_a_rank_that_is_behind_is_no_time_out(self) -> None:
        job = Golden().trains(1)
        job[0].enters("collective").reports("RuntimeError", LOST)
        found = blame(job.ended_by_us().history(), [])
        assert found.words() == (
            "the link between ranks 0 and 1: rank 0 lost its connection while every other rank still ran"
        )

    @pytest.mark.parametrize("field", ["op", "group", "shapes", "root", "peer"])
    def test_a_step_with_one_collective_that_is_unlike_its_earlier_ones_is_known_by_each_of_its_facts(
        self, field: str
    ) -> None:
        job = Golden()
        for step in (1, 2, 3):
            for one in job.ranks:
                other: dict[str, Any] = {field: [[9]] if field == "shapes" else "other"}
                odd = other if (one.rank, step) == (1, 2) else {}
                one.enters("backward").enters("collective", **odd).ends_step()
        job[0].enters("collective").reports("RuntimeError", LOST)
        assert words(job) == "rank 1: made other collectives at step 2 than before"

    def test_a_step_without_a_collective_is_unlike_those_with_one(self) -> None:
        job = Golden()
        for step in (1, 2, 3):
            for one in job.ranks:
                one.enters("backward")
                if (one.rank, step) != (1, 2):
                    one.enters("collective")
                one.ends_step()
        job[0].enters("collective").reports("RuntimeError", LOST)
        assert words(job) == "rank 1: made other collectives at step 2 than before"

    def test_a_step_like_any_earlier_one_is_not_odd(self) -> None:
        job = Golden()
        for step in (1, 2, 3, 4):
            for one in job.ranks:
                one.enters("backward").enters("collective")
                if step % 2:
                    one.enters("collective")
                one.ends_step()
        job[0].enters("collective").reports("RuntimeError", LOST)
        assert words(job).startswith("the link between")

    def test_a_step_that_a_rank_has_not_finished_is_not_odd(self) -> None:
        job = Golden().trains(2)
        job[0].enters("backward").enters("collective").enters("collective").reports("RuntimeError", LOST)
        job[1].enters("backward").enters("collective").reports("RuntimeError", LOST)
        assert words(job).startswith("the link between")


def test_a_rank_that_leaves_with_exit_code_1_and_says_nothing_has_left_early() -> None:
    job = Golden().trains(1)
    job[1].enters("load").exits(1)
    assert words(job.ended_by_us()) == "rank 1: left with exit code 1 at step 2, and said nothing"


def test_the_time_of_a_report_is_told_in_milliseconds() -> None:
    job = Golden(1)
    job.conductor[0]["t"] = 0.00044
    job[0].reports("ValueError")
    (said,) = accusations(job.history())
    assert said.after_s is not None and said.after_s == round(said.after_s, 3)


class TestFindings:
    def test_a_finding_on_some_ranks_blames_them_and_one_on_no_rank_nobody(self) -> None:
        job = Golden().trains(3).ends_well()
        some = Finding("control", "wrong result", (1,), 2)
        assert blame(job.history(), [some]) == Blame((1,), some.sentence())
        none = Finding("checkpoint", "no checkpoint", (), 2, evidence={"what": "x"})
        assert blame(job.history(), [none]) == Blame((), f"no rank stands out: {none.sentence()}")

    def test_of_several_findings_the_first_counts(self) -> None:
        job = Golden().trains(3).ends_well()
        first, second = (Finding("control", "wrong result", (rank,), 2) for rank in (1, 0))
        assert ranks(job, first, second) == (1,)

    def test_in_a_job_of_one_rank_it_is_to_blame_for_its_own_finding(self) -> None:
        assert blame(sound(ranks=1), [Finding("control", "wrong result", (0,), 2)]).ranks == (0,)

    def test_a_rank_that_told_nothing_is_not_compared_with_those_that_did(self) -> None:
        job = Golden(3).trains(1)
        job[0].writes("told", name="data", values={"source": "a"})
        job[1].writes("told", name="data", values={"source": "b"})
        assert ranks(job.ends_well(), Finding("control", "wrong result", (0, 1, 2), 1)) == ()

    def test_what_ranks_told_is_compared_by_name_and_step_and_the_first_step_counts(self) -> None:
        job = Golden(3).trains(1)
        for one in job.ranks:
            one.writes("told", name="zeta", values={"x": int(one.rank == 1), "y": 2})
        job.trains(1)
        for one in job.ranks:
            one.writes("told", name="data", values={"x": int(one.rank == 2)})
        found = blame(job.ends_well().history(), [Finding("control", "wrong result", (0, 1, 2), 1)])
        assert found.words() == "rank 1: told another zeta than the others at step 1"

    def test_of_what_a_rank_told_twice_in_a_step_the_first_counts_and_the_order_of_its_names_does_not(self) -> None:
        job = Golden(3).trains(1)
        for one in job.ranks:
            values = {"a": 1, "b": 2} if one.rank else {"b": 2, "a": 1}
            one.writes("told", name="data", values=values)
        job[1].writes("told", name="data", values={"a": 9})
        assert ranks(job.ends_well(), Finding("control", "wrong result", (0, 1, 2), 1)) == ()
