"""Less usual runs: the reasons for VOID, the notes and the words of a verdict that a person reads of them."""

from __future__ import annotations

import dataclasses
from signal import SIGABRT, SIGKILL, SIGSEGV, SIGTERM
from typing import Any

import pytest
from support.golden import Golden, killed, plan, sound

from breakrank import faults
from breakrank.history.reader import History
from breakrank.judge.judge import judge
from breakrank.judge.sufficiency import say_damage, why_no_rank
from breakrank.verdict import Outcome, Verdict
from breakrank_agent.protocol.fault import Fault, Strike
from breakrank_agent.protocol.trigger import at

KILL = faults.Kill()


def struck(fault: Fault, *ranks: int, step: int = 2, point: str = "optimize", visit: int = 1) -> Strike:
    """Return a resolved strike."""
    return dataclasses.replace(fault @ at(ranks[0], step, point, visit), ranks=ranks)


def left(status: int | None, ended: bool = False, **more: Any) -> dict[str, Any]:
    """Return the event of a launcher that is gone."""
    return {"kind": "launcher", "attempt": 0, "status": status, "ended": ended, "blames": [], "closed": [], **more}


def launched(history: History, *events: dict[str, Any]) -> History:
    """Return a history with more events of the Conductor."""
    return dataclasses.replace(history, conductor=(*history.conductor, *events))  # type: ignore[arg-type]


def says(verdict: Verdict) -> tuple[str, ...]:
    """Return the reasons of a verdict that must be VOID."""
    assert verdict.outcome is Outcome.VOID
    return verdict.void


#: The end of the reason that nothing was seen.
NOTHING = (
    "between its start and its end no rank loaded a batch, called a module, took gradients, stepped an optimizer, "
    "called a collective, or saved or restored a file"
)


class TestTooLittleSeen:
    def test_a_damaged_record_is_named_by_whose_it_is_in_the_run_and_in_its_control(self) -> None:
        broken = Golden().trains(3).ends_well()
        broken.says("damaged", attempt=0, rank=1, why="it ends in the middle")
        broken.says("damaged", attempt=0, rank=None, why="line 3 is no JSON")
        history = broken.history()
        assert [*say_damage(history)] == [
            "the record of rank 1 is damaged: it ends in the middle",
            "the record of the Conductor is damaged: line 3 is no JSON",
        ]
        assert says(judge(history, sound(), plan())) == tuple(say_damage(history))
        assert (
            says(judge(sound(), history, plan()))[0]
            == "the record of rank 1 of the control is damaged: it ends in the middle"
        )

    def test_a_rank_without_a_first_or_a_last_record_is_named(self) -> None:
        job = Golden().trains(3)
        job[0].ends()
        assert says(judge(job.history(), None, plan())) == ("rank 1 has no end on record in attempt 0",)
        whole = sound()
        mute = dataclasses.replace(whole.ranks[0, 1], events=whole.ranks[0, 1].events[1:])
        silent = dataclasses.replace(whole, ranks={**whole.ranks, (0, 1): mute})
        assert says(judge(silent, None, plan())) == ("rank 1 never started in attempt 0",)

    @pytest.mark.parametrize("of", [{"runner": "join"}, {"elastic": True}])
    def test_where_a_launcher_says_how_many_ranks_there_are_its_word_counts_and_not_the_plans(self, of: Any) -> None:
        assert judge(sound(ranks=3), None, plan(ranks=2, **of)).outcome is Outcome.SURVIVED
        assert judge(sound(ranks=2), None, plan(ranks=3, **of)).outcome is Outcome.SURVIVED

    def test_a_launcher_that_we_had_to_end_makes_the_run_void_unless_its_ranks_hung(self) -> None:
        ended = "the launcher had to be ended by us: its ranks had ended, or none had come"
        assert says(judge(launched(sound(), left(None, ended=True)), None, plan())) == (ended,)
        job = Golden().trains(1)
        job[0].enters("collective")
        hung = launched(job.hangs([0], "peer stopped", peer=1).history(), left(None, ended=True))
        assert judge(hung, None, plan()).outcome is Outcome.HUNG

    def test_a_process_of_a_launcher_that_could_not_be_entered_is_told_only_where_something_is_missing(self) -> None:
        closed = left(0, closed=["process 7 is no Python"])
        assert judge(launched(sound(), closed), None, plan()).void == ()
        missing = judge(launched(sound(), closed), None, plan(ranks=3))
        assert says(missing) == ("rank 2 never started in attempt 0", "process 7 is no Python")

    def test_ranks_that_do_not_count_steps_alike_are_named_with_the_cure(self) -> None:
        held = {"attempt": 0, "rank": 0, "waiting": [1], "on": True}
        job, control = killed().says("held", **held), Golden().trains(3).ends_well().says("held", **held)
        (reason,) = says(judge(job.history(), control.history(), plan(until=3, strikes=(struck(KILL, 1),))))
        assert reason == (
            "ranks do not count steps alike, in the control neither: "
            "rank 0 had made its 3 steps while rank 1 waited for it, and went on; "
            "name by --scenario-step=module:function what ends one"
        )

    @pytest.mark.parametrize(("on", "words"), [(True, "went on"), (False, "ended")])
    def test_a_rank_that_others_waited_for_after_its_last_step_is_a_note(self, on: bool, words: str) -> None:
        job = Golden().trains(3).ends_well().says("held", attempt=0, rank=0, waiting=[1], on=on)
        verdict = judge(job.history(), None, plan(until=3))
        assert (verdict.outcome, verdict.notes) == (
            Outcome.SURVIVED,
            (f"rank 0 had made its 3 steps while rank 1 waited for it, and {words}",),
        )

    def test_a_count_of_no_dropped_record_is_no_loss(self) -> None:
        history = Golden().trains(3).ends_well().says("dropped", attempt=0, rank=1, count=0).history()
        assert judge(history, None, plan()).outcome is Outcome.SURVIVED

    @pytest.mark.parametrize("kind", ["report", "raised", "note"])
    def test_a_message_that_was_too_long_is_no_loss(self, kind: str) -> None:
        job = Golden(1).trains(3)
        job[0].writes(kind, text="(cut)", type="E", message="(cut)", point="x", code=1, frames=[], cut="message")
        assert judge(job.ends_well().history(), None, plan(ranks=1)).void == ()

    def test_a_hang_before_the_first_step_is_a_fact_and_not_too_little(self) -> None:
        job = Golden()
        job[0].enters("collective")
        verdict = judge(job.hangs([0], "peer stopped", peer=1).history(), None, plan())
        assert (verdict.outcome, verdict.void) == (Outcome.HUNG, ())

    def test_a_step_that_one_rank_began_is_a_step(self) -> None:
        job = Golden()
        job[1].enters("load")
        assert judge(job.ends_well().history(), None, plan(steps=0)).void == ()

    @pytest.mark.parametrize(
        ("of", "words"),
        [
            ({}, f"nothing was seen: {NOTHING}"),
            ({"step": "train:one_step"}, f"nothing was seen: train:one_step never returned, and {NOTHING}"),
        ],
    )
    def test_a_run_in_which_nothing_was_done_says_what_would_have_been_something(self, of: Any, words: str) -> None:
        assert says(judge(Golden().ends_well().history(), None, plan(steps=0, **of))) == (words,)

    def test_a_step_that_never_returned_is_a_note_where_something_else_was_seen(self) -> None:
        job = Golden()
        job[1].enters("load")
        verdict = judge(job.ends_well().history(), None, plan(steps=0, step="train:one_step"))
        assert (verdict.void, verdict.notes) == ((), ("no step was seen: train:one_step never returned",))

    def test_a_rank_that_left_with_a_code_before_the_first_step_is_a_fact_and_not_too_little(self) -> None:
        job = Golden()
        job[0].exits(0)
        job[1].exits(3)
        verdict = judge(job.history(), None, plan(steps=0))
        assert (verdict.outcome, verdict.void) == (Outcome.DETECTED, ())
        assert verdict.reported == ("rank 1 reported exit code 3 before the first step",)

    def test_a_launcher_without_a_rank_names_the_process_that_could_not_be_entered(self) -> None:
        of = plan(runner="join", ranks=0, command=("torchrun", "train.py"))
        history = History({}, (left(1, closed=["a is no Python", "b is foreign"]),))  # type: ignore[arg-type]
        assert why_no_rank(history, of) == "no rank of 'torchrun train.py' called home: a is no Python; b is foreign"
        killed_by = History({}, (left(-9),))  # type: ignore[arg-type]
        assert why_no_rank(killed_by, of).endswith("called home: it was killed by SIGKILL before")
        waited = History({}, (left(None, ended=True),))  # type: ignore[arg-type]
        assert why_no_rank(waited, dataclasses.replace(of, deadline_s=1.5)).endswith(
            "none came within the deadline of 1.5 s, which may be too short; else, "
            "ranks are Python processes with RANK and WORLD_SIZE that import torch, or call init_process_group"
        )
        assert why_no_rank(History(), of) == "no rank was started"


class TestAsking:
    def test_a_script_is_measured_by_the_steps_of_its_control(self) -> None:
        of = plan(steps=0, command=("train.py",), oracles=("ends",))
        job = Golden().trains(2)
        job[0].ends()
        job[1].exits(0)
        without = judge(job.history(), None, of)
        assert without.findings == ()
        known = judge(job.history(), sound(steps=4), of)
        assert [f.evidence["expected"] for f in known.findings if f.oracle == "ends"] == [4]

    def test_a_script_without_a_control_is_not_measured_by_its_own_rank_with_the_most_steps(self) -> None:
        job = Golden().trains(3).trains(1, only=0).ends_well()
        verdict = judge(job.history(), None, plan(steps=0, command=("train.py",), oracles=("ends",)))
        assert [f for f in verdict.findings if f.oracle == "ends"] == []
        assert verdict.abstained["ends"] == "nothing says how many steps the job has"

    def test_each_oracle_that_abstained_gives_its_reason(self) -> None:
        verdict = judge(sound(), None, plan())
        assert verdict.abstained["control"].startswith("there is no control")
        assert "ends" not in verdict.abstained

    def test_if_every_oracle_that_was_asked_abstained_each_reason_is_told_in_one_line(self) -> None:
        of = plan(ranks=1, oracles=("replicas", "samples"))
        (reason,) = says(judge(sound(ranks=1), None, of))
        assert reason == (
            "every oracle abstained: "
            "replicas: there are no two replicas that ended well and recorded their parameters; "
            "samples: there is no control to count samples in"
        )

    def test_a_rank_that_reported_is_a_fact_where_every_oracle_that_was_asked_abstained(self) -> None:
        of = plan(strikes=(struck(KILL, 1),), oracles=("replicas", "samples"))
        verdict = judge(killed().history(), None, of)
        assert (verdict.outcome, verdict.void) == (Outcome.DETECTED, ())
        assert {"replicas", "samples"} <= verdict.abstained.keys()

    def test_an_oracle_that_is_silent_counts_neither_as_asked_nor_as_abstained(self) -> None:
        verdict = judge(sound(), None, plan(oracles=("control", "ends")), silent=("control",))
        assert (verdict.outcome, "control" in verdict.abstained) == (Outcome.SURVIVED, False)

    def test_a_finding_of_an_oracle_that_was_not_asked_is_something_to_say(self) -> None:
        job = Golden().trains(3)
        job[1].ends(params="flipped")
        verdict = judge(job.ends_well().history(), None, plan(oracles=("samples",)))
        assert (verdict.outcome, [f.oracle for f in verdict.also]) == (Outcome.SURVIVED, ["replicas"])

    def test_an_unknown_oracle_is_named_with_those_that_there_are(self) -> None:
        (reason,) = says(judge(sound(), None, plan(oracles=("ends", "astrology"))))
        assert reason.startswith("there is no oracle 'astrology'; oracles are buffers, checkpoint, collectives, ")

    def test_findings_of_an_earlier_attempt_come_first_and_are_notes(self) -> None:
        job = Golden().trains(2)
        job[1].trains([21], finite=False)
        job[1].dies(SIGSEGV)
        job.ended_by_us().again().trains(1)
        job[0].trains([1], finite=False)
        job[1].trains([2])
        verdict = judge(job.ends_well().history(), None, plan(oracles=("finite", "replicas")))
        assert [(f.oracle, f.attempt, f.step) for f in verdict.findings] == [("finite", 1, 2)]
        assert all(f.attempt == 1 for f in verdict.findings)
        assert "in attempt 0: NaN or infinite parameters in rank 1 at step 3" in verdict.notes

    def test_blame_falls_on_the_rank_of_the_finding_that_counts(self) -> None:
        job = Golden(3).trains(3)
        job[1].ends(params="flipped")
        verdict = judge(job.ends_well().history(), None, plan(ranks=3, oracles=("replicas",)))
        assert verdict.blame.ranks == (1,)
        aside = judge(job.history(), None, plan(ranks=3, oracles=("ends",)))
        assert aside.blame.ranks == ()

    def test_whom_a_report_accuses_stands_beside_the_blame(self) -> None:
        verdict = judge(killed().history(), None, plan(strikes=(struck(KILL, 1),)))
        (said,) = verdict.accused
        assert said.startswith("RuntimeError in rank 0 blamed no rank, 0.0 s after the start")


class TestEnds:
    def test_reports_stand_in_the_order_in_which_they_came_and_the_launchers_is_last(self) -> None:
        job = Golden(3).trains(1)
        job[2].reports("ValueError", "bad shard")
        job[0].exits(3)
        job[1].reports("KeyError", "'step'")
        history = launched(job.history(), left(1, blames=[2]))
        assert judge(history, None, plan(ranks=3)).reported == (
            "rank 2 reported ValueError: bad shard (train.py:7) at step 1",
            "rank 1 reported KeyError: 'step' (train.py:7) at step 1",
            "rank 0 reported exit code 3 at step 1",
            "the launcher ended with exit code 1, and blames rank 2",
        )

    def test_of_a_report_the_type_is_heard_without_its_message_and_of_none_nothing(self) -> None:
        job = Golden().trains(2)
        job[1].reports("ValueError", "shard 3: 7 bad rows: the first is 5")
        assert judge(job.ended_by_us().history(), None, plan()).heard == "report: ValueError, rank 1, step 2"
        assert judge(sound(), None, plan()).heard == ""

    def test_a_launcher_that_was_killed_reports_so_and_blames_nobody(self) -> None:
        job = Golden().trains(1)
        job[0].reports("ValueError")
        job[1].ends()
        assert judge(launched(job.history(), left(-SIGTERM)), None, plan()).reported[-1] == (
            "the launcher was killed by SIGTERM"
        )

    def test_a_launcher_that_fails_alone_has_reported(self) -> None:
        verdict = judge(launched(sound(), left(7)), None, plan())
        assert (verdict.outcome, verdict.reported) == (
            Outcome.DETECTED,
            ("the launcher ended with exit code 7",),
        )

    def test_each_rank_that_crashed_is_named_with_its_signal(self) -> None:
        job = Golden().trains(2)
        job[1].dies(SIGSEGV)
        job[0].reports("RuntimeError", "Connection closed by peer")
        verdict = judge(job.history(), None, plan())
        assert verdict.crashed == ("rank 1 died of SIGSEGV at step 2",)
        assert verdict.reported == ("rank 0 reported RuntimeError: Connection closed by peer (train.py:7) at step 2",)

    def test_ranks_that_the_injector_or_we_have_ended_are_notes(self) -> None:
        job = Golden(3).trains(1)
        job[1].is_struck(status=-SIGKILL)
        job[0].reports("RuntimeError", "Connection closed by peer")
        verdict = judge(job.ended_by_us().history(), None, plan(ranks=3))
        assert verdict.notes[:2] == (
            "rank 1 was ended by the injector (SIGKILL) at step 1",
            "rank 2 ended by us, after another rank had failed at step 1",
        )

    def test_if_the_injector_ended_all_ranks_but_one_the_run_is_judged(self) -> None:
        job = Golden().trains(2)
        job[1].is_struck(status=-SIGKILL)
        job.trains(1, only=0).ends_well()
        of = plan(strikes=(struck(KILL, 1, point="step"),), oracles=("ends", "finite"))
        assert judge(job.history(), None, of).outcome is Outcome.SURVIVED

    def test_a_wait_of_a_rank_that_hung_is_a_finding_and_that_of_another_a_note(self) -> None:
        job = Golden(3).trains(1)
        job[0].enters("collective")
        verdict = judge(job.hangs([0], "peer stopped", peer=1).history(), None, plan(ranks=3))
        assert [f.cause for f in verdict.findings] == ["peer stopped"]

    def test_the_work_that_an_earlier_attempt_lost_is_counted_and_none_is_no_note(self) -> None:
        job = Golden().trains(2)
        job[0].saves()
        job[1].dies(SIGABRT)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        kept = judge(job.trains(1).ends_well().history(), None, plan())
        assert not any("were lost" in note for note in kept.notes)
        again = Golden().trains(2)
        again[1].dies(SIGABRT)
        lost = judge(again.ended_by_us().again().trains(3).ends_well().history(), None, plan())
        assert "2 of 2 steps of attempt 0 were lost" in lost.notes
        assert not any("attempt 1" in note for note in lost.notes)


class TestLimitsOfTheRecord:
    def test_each_limit_is_told_once_and_other_notes_are_not(self) -> None:
        job = Golden().trains(3)
        for one in job.ranks:
            one.writes("note", text="the loader is not watched", limits=True)
            one.writes("note", text="only a remark")
        assert judge(job.ends_well().history(), None, plan()).notes == ("the loader is not watched",)

    def test_notes_of_the_private_view_are_told(self) -> None:
        job = Golden().trains(3).ends_well().says("view", notes=["1 link is not copied", "a socket is not copied"])
        assert judge(job.history(), None, plan()).notes == ("1 link is not copied", "a socket is not copied")

    def test_a_child_that_nobody_watched_is_named_and_one_that_was_is_not(self) -> None:
        job = Golden().trains(3)
        for number in range(3):
            job[1].writes("child", name=f"child-{number}")
        job[1].writes("sync", do="start", key="k", seq="child-1/thread-0")
        job[1].writes("sync", do="start", key="k", seq="child-2")
        job[1].writes("point", point="write", path="p", visit=1, seq="child-0")
        assert judge(job.ends_well().history(), None, plan()).notes == ("child-0 of rank 1 could not be watched",)

    def test_files_and_records_that_were_not_kept_are_counted(self) -> None:
        job = Golden().trains(3).ends_well()
        job.says("not_kept", path="data.bin", count=1, why="it is too large")
        job.says("not_kept", path="logs", count=3, why="there are too many")
        job.says("not_kept", path="a.bin", count=2, why="they are too large")
        job.says("left_out", attempt=0, rank=1, count=12)
        assert judge(job.history(), None, plan()).notes == (
            "data.bin of the working folder is not kept: it is too large",
            "logs, and 2 more, of the working folder is not kept: there are too many",
            "a.bin, and 1 more, of the working folder is not kept: they are too large",
            "12 records in the middle of rank 1's history were not kept",
        )
