"""From golden histories to verdicts: the reasons for VOID, the classes of ends, and the notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from signal import SIGABRT, SIGKILL, SIGSEGV
from typing import Any

import pytest
from support.golden import Golden, killed, plan, sound

from breakrank import faults, oracles
from breakrank.analysis import endings
from breakrank.history.reader import History
from breakrank.judge.judge import judge
from breakrank.oracles import Abstain
from breakrank.report.compare import finding
from breakrank.verdict import Ended, Outcome
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Fault, Strike
from breakrank_agent.protocol.trigger import at

KILL = faults.Kill()


def struck(fault: Fault, *ranks: int, step: int = 2, point: str = "optimize", visit: int = 1) -> Strike:
    """Return a resolved strike."""
    return dataclasses.replace(fault @ at(ranks[0], step, point, visit), ranks=ranks)


def of_a_kill(**values: Any) -> Plan:
    """Return the plan of `killed()`."""
    return plan(strikes=(struck(KILL, 1),), **values)


class TestOutcomes:
    def test_a_sound_job_survives(self) -> None:
        verdict = judge(sound(), None, plan())
        assert verdict.outcome is Outcome.SURVIVED
        assert verdict.findings == ()
        assert verdict.void == ()

    def test_a_killed_rank_that_a_peer_reports_is_detected(self) -> None:
        verdict = judge(killed().history(), sound(), of_a_kill())
        assert verdict.outcome is Outcome.DETECTED
        assert verdict.reported == ("rank 0 reported RuntimeError: Connection closed by peer (train.py:7) at step 2",)
        assert verdict.blame.ranks == (1,)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_two_runs_whose_ranks_say_one_thing_in_another_order_have_one_sentence(
        self, order: tuple[int, ...]
    ) -> None:
        words = {0: "Read error [127.0.0.1]:24749: Connection reset by peer", 1: "Connection closed by peer [::1]:7"}
        job = Golden().trains(2)
        for rank in order:
            job[rank].reports("RuntimeError", words[rank])
        verdict = judge(job.history(), None, plan())
        assert verdict.sentence() == "rank 0 reported RuntimeError: Connection lost to PEER (train.py:7) at step 2"
        assert finding(verdict) == "report: RuntimeError, rank 0, step 2"
        assert verdict.findings == () and "heard" not in verdict.to_json(), "no record and no digest knows of it"

    def test_of_ranks_that_say_unlike_things_the_first_one_speaks(self) -> None:
        job = Golden().trains(2)
        job[1].reports("ValueError", "the batch is empty")
        job[0].reports("RuntimeError", "Connection closed by peer [::1]:7")
        assert judge(job.history(), None, plan()).sentence().startswith("rank 1 reported ValueError")

    def test_latency_runs_from_the_first_strike_fired_to_the_first_report_after_it(self) -> None:
        history = killed().history()
        fired = next(e["t"] for e in history.ranks[0, 1].of_kind("strike"))
        reported = history.ranks[0, 0].of_kind("report")[0]["t"]
        assert judge(history, None, of_a_kill()).latency_s == reported - fired

    def test_a_job_that_nobody_struck_has_no_latency(self) -> None:
        job = Golden().trains(2)
        job[0].reports("ValueError")
        job[1].reports("ValueError")
        assert judge(job.history(), None, plan()).latency_s is None

    def test_a_report_from_before_the_strike_gives_no_latency(self) -> None:
        job = Golden().trains(1)
        job[0].reports("ValueError")
        job.ended_by_us().again().trains(1)
        job[1].is_struck(status=-SIGKILL)
        job.trains(2, only=0).ends_well()
        late = Strike(KILL, at(1, 1, attempt=1), ranks=(1,))
        verdict = judge(job.history(), None, plan(strikes=(late,)))
        assert (verdict.outcome, verdict.latency_s) == (Outcome.SURVIVED, None)

    def test_a_wrong_result_that_nobody_reported_is_silent(self) -> None:
        job = Golden().trains(3)
        job[1].ends(params="flipped")
        verdict = judge(job.ends_well().history(), sound(), plan(oracles=("replicas", "control")))
        assert verdict.outcome is Outcome.SILENT
        assert [f.oracle for f in verdict.findings] == ["replicas", "control"]

    def test_of_a_case_a_finding_of_an_oracle_that_it_does_not_name_is_told_and_decides_nothing(self) -> None:
        job = Golden().trains(3)
        job[1].ends(params="flipped")
        verdict = judge(job.ends_well().history(), sound(), plan(oracles=("ends", "progress")))
        assert (verdict.outcome, verdict.findings) == (Outcome.SURVIVED, ())
        assert [f.oracle for f in verdict.also] == ["replicas", "control"]

    def test_of_a_script_every_finding_counts(self) -> None:
        job = Golden().trains(3)
        job[1].ends(params="flipped")
        mine = plan(oracles=("ends", "progress"), command=("train.py",))
        verdict = judge(job.ends_well().history(), sound(), mine)
        assert (verdict.outcome, verdict.also) == (Outcome.SILENT, ())
        assert [f.oracle for f in verdict.findings] == ["replicas", "control"]

    def test_an_oracle_that_is_to_be_silent_is_not_asked(self) -> None:
        job = Golden().trains(3)
        job[1].ends(params="flipped")
        mine = plan(command=("train.py",))
        verdict = judge(job.ends_well().history(), sound(), mine, silent=("replicas", "control"))
        assert verdict.outcome is Outcome.SURVIVED

    def test_a_wait_for_a_stopped_rank_is_a_hang(self) -> None:
        job = Golden().trains(2)
        job[1].loads([1]).is_struck()
        job[0].loads([1]).enters("collective")
        job.hangs([0], "peer stopped", peer=1)
        verdict = judge(job.history(), None, plan(strikes=(struck(faults.Stop(), 1, step=3, point="load"),)))
        assert verdict.outcome is Outcome.HUNG
        assert verdict.sentence() == "rank 0 waits in all_reduce at step 3 for rank 1, which stands still"
        assert verdict.blame.ranks == (1,)

    def test_a_signal_that_nobody_sent_is_a_crash(self) -> None:
        job = Golden().trains(2)
        job[1].dies(SIGSEGV)
        job[0].reports("RuntimeError", "Connection closed by peer")
        verdict = judge(job.history(), None, plan())
        assert verdict.outcome is Outcome.CRASHED
        assert verdict.sentence() == "rank 1 died of SIGSEGV at step 2"

    def test_a_survivor_of_a_killed_rank_that_ends_well_survives(self) -> None:
        job = Golden().trains(2)
        job[1].is_struck(status=-SIGKILL)
        job.trains(1, only=0).ends_well()
        assert judge(job.history(), None, plan(strikes=(struck(KILL, 1, point="step"),))).outcome is Outcome.SURVIVED


class TestEnds:
    def classes(self, job: Golden) -> dict[int, Ended]:
        return endings.classify(job.history(), job.attempt)

    def test_any_signal_after_the_end_is_a_good_end(self) -> None:
        job = Golden().trains(3).ends_well()
        job[1].exits(-SIGABRT)
        assert self.classes(job) == {0: Ended.WELL, 1: Ended.WELL}

    def test_an_exit_0_that_we_brought_about_is_no_good_end(self) -> None:
        job = Golden(1).trains(1)
        job[0].exits(0, by_us=True)
        assert self.classes(job) == {0: Ended.COLLATERAL}

    def test_an_exit_code_without_a_record_of_a_report_is_a_report(self) -> None:
        job = Golden(1).trains(1)
        job[0].exits(3)
        assert self.classes(job) == {0: Ended.REPORTED}

    def test_a_rank_that_reported_and_then_died_of_a_signal_reported(self) -> None:
        job = Golden(1).trains(1)
        job[0].reports("ValueError").exits(-SIGABRT)
        assert self.classes(job) == {0: Ended.REPORTED}

    def test_an_end_other_than_the_injectors_act_is_none_of_it(self) -> None:
        job = Golden(1).trains(1)
        job[0].is_struck(status=-SIGKILL).exits(-SIGSEGV)
        assert self.classes(job) == {0: Ended.CRASHED}

    def test_a_wait_that_we_ended_after_another_rank_had_reported_is_collateral(self) -> None:
        job = Golden().trains(1)
        job[1].reports("ValueError")
        job[0].loads([1]).enters("collective")
        assert self.classes(job.hangs([0], "peer ended", peer=1)) == {0: Ended.COLLATERAL, 1: Ended.REPORTED}

    def test_a_report_that_came_of_our_ending_a_hang_does_not_excuse_it(self) -> None:
        job = Golden(3).trains(1)
        waiting = [{"rank": r, "step": 1, "point": "collective", "op": "allreduce_"} for r in (0, 1)]
        job.says("hung", attempt=0, ranks=[0, 1], why="deadline", peer=None, waiting=waiting, seconds=30.0)
        job[0].exits(-SIGKILL, by_us=True)
        job[1].exits(-SIGKILL, by_us=True)
        job[2].reports("RuntimeError", "Connection closed by peer")
        assert self.classes(job) == {0: Ended.HUNG, 1: Ended.HUNG, 2: Ended.REPORTED}

    def test_a_rank_that_stood_still_until_we_ended_it_was_struck(self) -> None:
        job = Golden().trains(3)
        job[1].is_struck()
        job[0].ends()
        assert self.classes(job.ended_by_us()) == {0: Ended.WELL, 1: Ended.STRUCK}


class TestVoid:
    def reasons(self, history: History, of: Plan, control: History | None = None) -> tuple[str, ...]:
        verdict = judge(history, control, of)
        assert verdict.outcome is Outcome.VOID
        return verdict.void

    def test_a_strike_that_never_fired_names_the_points_that_there_are(self) -> None:
        of = plan(strikes=(struck(KILL, 1, point="collective", visit=2),))
        (reason,) = self.reasons(sound(), of)
        assert reason == (
            "strike 0 (kill at rank 1, step 2, collective, visit 2) never fired: "
            "rank 1 at step 2 has load, forward, backward, collective (1 visit), optimize, step"
        )

    def test_a_strike_at_a_step_that_never_came_names_the_last_step(self) -> None:
        (reason,) = self.reasons(sound(), plan(strikes=(struck(KILL, 1, step=9),)))
        assert reason.endswith("never fired: rank 1 came to step 3")

    def test_a_strike_in_an_attempt_that_never_was_says_so(self) -> None:
        late = Strike(KILL, at(1, 2, attempt=1), ranks=(1,))
        (reason,) = self.reasons(sound(), plan(strikes=(late,)))
        assert reason.endswith("never fired: there was no attempt 1")

    def test_a_strike_that_fired_and_did_not_land_says_what_was_not_seen(self) -> None:
        job = Golden().trains(2)
        job[1].is_struck(lands=False)
        history = job.trains(1).ends_well().history()
        (reason,) = self.reasons(history, plan(strikes=(struck(KILL, 1, point="step"),)))
        assert reason.endswith("fired, but did not land: ended: not seen within 1 s")

    def test_a_strike_that_misses_on_one_of_its_ranks_names_the_rank(self) -> None:
        (reason,) = self.reasons(killed().history(), plan(ranks=2, strikes=(struck(KILL, 1, 0),)))
        assert "never fired on rank 0: rank 0 at step 2 has" in reason

    def test_a_dropped_record(self) -> None:
        history = Golden().trains(3).ends_well().says("dropped", attempt=0, rank=1, count=2).history()
        assert self.reasons(history, plan()) == ("2 records of rank 1 were dropped",)

    def test_a_record_that_lost_what_is_judged(self) -> None:
        job = Golden().trains(3)
        job[1].writes("payload", of="load", indices="(cut)", samples=None, batch="b", cut="indices")
        assert self.reasons(job.ends_well().history(), plan()) == (
            "a record of rank 1 was too long and lost its indices",
        )

    def test_a_rank_that_never_started(self) -> None:
        assert self.reasons(sound(2), plan(ranks=3)) == ("rank 2 never started in attempt 0",)

    def test_a_run_of_which_nothing_is_on_record_but_starts_and_ends(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.enters("start").ends()
        for of in (plan(steps=0), plan(steps=0, command=("train.py",))):
            (reason, *_) = self.reasons(job.history(), of)
            assert reason.startswith("nothing was seen: between its start and its end no rank loaded a batch")

    def test_a_script_without_steps_is_judged_by_what_it_does(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.enters("collective")
        history = job.ends_well().history()
        assert judge(history, None, plan(steps=0, command=("reduce.py",))).outcome is Outcome.SURVIVED

    @pytest.mark.parametrize("command", [("train.py",), ()])
    def test_a_failure_before_the_first_step_is_one(self, command: tuple[str, ...]) -> None:
        job = Golden()
        for one in job.ranks:
            one.reports("RuntimeError", "no GPU here")
        verdict = judge(job.history(), None, plan(steps=0, oracles=("replicas",), command=command))
        assert verdict.outcome is Outcome.DETECTED
        assert verdict.sentence() == "rank 0 reported RuntimeError: no GPU here (train.py:7) before the first step"

    def test_a_strike_without_a_step_that_never_fired_names_all_points(self) -> None:
        strike = dataclasses.replace(KILL @ at(1, point="load", visit=9), ranks=(1,))
        (reason,) = self.reasons(sound(), plan(strikes=(strike,)))
        assert reason.startswith("strike 0 (kill at rank 1, 9th load of the run) never fired: rank 1 has ")
        assert "load (3 visits)" in reason and reason.endswith(" in all")

    def test_a_strike_at_a_step_of_a_script_without_steps_names_what_there_is(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.enters("collective").enters("collective")
        of = plan(steps=0, command=("reduce.py",), strikes=(struck(KILL, 1, step=3),))
        (reason,) = self.reasons(job.ends_well().history(), of)
        assert reason.endswith(
            "rank 1 has no steps, but collective (2 visits), end; a trigger without a step strikes one"
        )

    @pytest.mark.parametrize("unlike", [True, False])
    def test_ranks_that_count_steps_otherwise_leave_a_strike_undecided(self, unlike: bool) -> None:
        held = {"attempt": 0, "rank": 0, "waiting": [1]}
        control = Golden().trains(3).ends_well()
        struck_at = killed().says("held", on=False, **held)
        if unlike:
            control.says("held", on=True, **held)
        verdict = judge(struck_at.history(), control.history(), of_a_kill(command=("train.py",), until=3))
        assert (verdict.outcome is Outcome.VOID) is unlike
        assert "rank 0 had made its 3 steps while rank 1 waited for it, and ended" in verdict.notes

    @pytest.mark.parametrize(
        ("status", "ended", "words"),
        [
            (0, False, "ranks are Python processes with RANK and WORLD_SIZE"),
            (2, False, "it ended with exit code 2 before"),
            (None, True, "none came within the deadline of 60 s, which may be too short"),
        ],
    )
    def test_a_launcher_without_a_rank_says_why(self, status: int | None, ended: bool, words: str) -> None:
        left = {"kind": "launcher", "attempt": 0, "status": status, "ended": ended, "blames": [], "closed": []}
        of = plan(steps=0, runner="join", ranks=0, command=("torchrun", "train.py"), deadline_s=60.0)
        reason = self.reasons(History({}, (left,)), of)[0]
        assert reason.startswith(f"no rank of 'torchrun train.py' called home: {words}")

    def test_a_run_that_a_strike_ended_before_its_first_step_is_judged_if_the_control_has_steps(self) -> None:
        job = Golden()
        job[1].is_struck(status=-SIGKILL)
        job[0].reports("RuntimeError", "Connection closed by peer")
        of = plan(strikes=(struck(KILL, 1, step=0, point="start"),))
        assert judge(job.history(), sound(), of).outcome is Outcome.DETECTED

    def test_every_oracle_abstained(self) -> None:
        (reason,) = self.reasons(sound(1), plan(ranks=1, oracles=("replicas", "control")))
        assert reason.startswith("every oracle abstained: replicas: there are no two replicas")

    def test_an_unknown_oracle(self) -> None:
        (reason,) = self.reasons(sound(), plan(oracles=("ends", "astrology")))
        assert reason.startswith("there is no oracle 'astrology'; oracles are ")

    def test_the_injector_ended_every_rank(self) -> None:
        job = Golden().trains(2)
        for one in job.ranks:
            one.is_struck(status=-SIGKILL)
        of = plan(strikes=(struck(KILL, 0, 1, point="step"),))
        assert self.reasons(job.history(), of) == ("the injector ended every rank of the last attempt",)

    def test_a_reason_that_was_given(self) -> None:
        verdict = judge(sound(), None, plan(), ["the control failed: rank 1 reported ValueError"])
        assert (verdict.outcome, verdict.sentence()) == (
            Outcome.VOID,
            "the control failed: rank 1 reported ValueError",
        )

    def test_nothing_was_started(self) -> None:
        assert self.reasons(History(), plan())[0] == "no rank was started"


class TestOracles:
    """The judge's treatment of oracles; these are registered for the test alone."""

    @pytest.fixture
    def registry(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
        known = dict(oracles.all_oracles())
        monkeypatch.setattr("breakrank.judge.judge.all_oracles", lambda: known)
        yield known

    def test_an_oracle_that_raises_makes_the_run_void_by_name_and_without_a_traceback(
        self, registry: dict[str, Any]
    ) -> None:
        def judging(history: History, control: History | None, terms: oracles.Terms) -> list[Any]:
            raise KeyError("params")

        registry["broken"] = judging
        verdict = judge(sound(), None, plan(oracles=("ends", "broken")))
        assert verdict.outcome is Outcome.VOID
        assert verdict.void == ("the oracle broken raised KeyError: 'params'",)

    def test_an_oracle_never_sees_a_fault_event(self, registry: dict[str, Any]) -> None:
        seen: list[Any] = []

        def judging(history: History, control: History | None, terms: oracles.Terms) -> list[Any]:
            seen.extend(e["kind"] for lived in history.ranks.values() for e in lived.events)
            seen.extend(e["kind"] for e in history.conductor)
            raise Abstain("only looking")

        registry["curious"] = judging
        verdict = judge(killed().history(), None, of_a_kill(oracles=("curious", "ends")))
        assert "strike" not in seen
        assert verdict.abstained["curious"] == "only looking"

    def test_findings_stand_by_step_and_then_in_the_plans_order_of_oracles(self) -> None:
        job = Golden().trains(1)
        job[0].trains([0])
        job[1].trains([1], params="flipped", finite=False)
        job.trains(1)
        history = job.ends_well().history()
        order = ("control", "replicas", "finite")
        job[1].ends(params="flipped")
        assert [f.oracle for f in judge(history, sound(), plan(oracles=order)).findings] == ["replicas", "finite"]
        verdict = judge(job.history(), sound(), plan(oracles=order))
        assert [f.oracle for f in verdict.findings] == ["control", "replicas", "finite"]


class TestNotes:
    def test_a_strike_whose_rank_another_had_killed_before_is_a_note(self) -> None:
        of = plan(strikes=(struck(KILL, 1), struck(faults.FlipBit(), 1, step=3)))
        verdict = judge(killed().history(), None, of)
        assert verdict.outcome is Outcome.DETECTED
        assert any("was overtaken: strike 0 had struck rank 1 before" in note for note in verdict.notes)

    def test_a_strike_whose_rank_ended_by_itself_is_no_note_but_void(self) -> None:
        of = plan(strikes=(struck(KILL, 1), struck(faults.FlipBit(), 0, step=3)))
        assert judge(killed().history(), None, of).outcome is Outcome.VOID

    def test_an_abort_after_the_end_is_a_note(self) -> None:
        job = Golden().trains(3)
        job[1].ends(status=-SIGABRT)
        verdict = judge(job.ends_well().history(), None, plan())
        assert verdict.outcome is Outcome.SURVIVED
        assert verdict.notes == ("rank 1 died of SIGABRT after its work was over",)

    @pytest.mark.parametrize(
        ("status", "outcome"),
        [(-SIGABRT, Outcome.SURVIVED), (0, Outcome.DETECTED)],
        ids=["handed on from a rank", "its own"],
    )
    def test_a_launcher_that_hands_on_an_abort_after_the_end_reports_nothing(
        self, status: int, outcome: Outcome
    ) -> None:
        job = Golden().trains(3)
        job[1].ends(status=status)
        history = job.ends_well().history()
        left = {"kind": "launcher", "attempt": 0, "status": 134, "ended": False, "blames": [1], "closed": []}
        launched = dataclasses.replace(history, conductor=(*history.conductor, left))
        assert judge(launched, None, plan()).outcome is outcome

    def test_earlier_attempts_give_notes_and_the_last_one_the_outcome(self) -> None:
        job = Golden().trains(2)
        job[0].saves()
        job[1].trains([21], finite=False)
        job[1].reports("ValueError", "loss is NaN")
        job.ended_by_us().again()
        job[0].restores("a0s2")
        verdict = judge(job.trains(1).ends_well().history(), None, plan())
        assert verdict.outcome is Outcome.SURVIVED
        assert "in attempt 0: rank 1 reported ValueError: loss is NaN (train.py:7) at step 3" in verdict.notes
        assert "in attempt 0: NaN or infinite parameters in rank 1 at step 3" in verdict.notes
        assert "1 of 3 steps of attempt 0 were lost" in verdict.notes

    def test_a_wait_that_we_ended_after_a_report_is_a_note_and_no_finding(self) -> None:
        job = Golden().trains(1)
        job[1].reports("ValueError")
        job[0].loads([1]).enters("collective")
        verdict = judge(job.hangs([0], "peer ended", peer=1).history(), None, plan())
        assert (verdict.outcome, verdict.findings) == (Outcome.DETECTED, ())
        assert "rank 0 waits in all_reduce at step 2 for rank 1, which has ended" in verdict.notes
