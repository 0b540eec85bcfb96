"""Strikes that did not do what the plan says: each is named, with what was seen of it, and the run is VOID."""

from __future__ import annotations

import dataclasses

from support.golden import Golden, killed, plan, sound

from breakrank import faults
from breakrank.judge.judge import judge
from breakrank.verdict import Outcome, Verdict
from breakrank_agent.protocol.fault import Fault, Strike
from breakrank_agent.protocol.trigger import at

KILL = faults.Kill()


def struck(fault: Fault, *ranks: int, step: int = 2, point: str = "optimize", visit: int = 1) -> Strike:
    """Return a resolved strike."""
    return dataclasses.replace(fault @ at(ranks[0], step, point, visit), ranks=ranks)


def says(verdict: Verdict) -> tuple[str, ...]:
    """Return the reasons of a verdict that must be VOID."""
    assert verdict.outcome is Outcome.VOID
    return verdict.void


class TestStrikes:
    def test_a_strike_that_was_never_resolved_is_named(self) -> None:
        (reason,) = says(judge(sound(), None, plan(strikes=(KILL @ at("one", 2),))))
        assert reason.startswith("strike 0 (kill at ")
        assert reason.endswith(") names no ranks: the plan was not resolved")

    def test_a_strike_on_a_rank_that_the_job_has_not_says_so(self) -> None:
        (reason,) = says(judge(sound(2), None, plan(strikes=(struck(KILL, 2),))))
        assert reason.endswith("never fired: there is no rank 2")

    def test_a_strike_that_could_not_be_undone_makes_the_run_void_although_it_landed(self) -> None:
        job = killed()
        where = {"strike": 0, "attempt": 0, "phase": "unhealed"}
        job.says("strike", rank=1, why="the rule is still there", **where)
        of = plan(strikes=(struck(KILL, 1),))
        (reason,) = says(judge(job.history(), None, of))
        assert reason == "strike 0 (kill at rank 1, step 2, optimize) could not be undone: the rule is still there"
        other = killed().says("strike", rank=0, why="of another rank", **where)
        assert judge(other.history(), None, of).outcome is Outcome.DETECTED

    def test_a_strike_on_several_ranks_names_the_one_on_which_it_missed(self) -> None:
        job = Golden().trains(2)
        job[0].is_struck()
        job[1].is_struck(lands=False)
        of = plan(strikes=(struck(faults.Placebo(), 0, 1, point="step"),))
        (reason,) = says(judge(job.trains(1).ends_well().history(), None, of))
        assert reason.endswith("fired on rank 1, but did not land: ended: not seen within 1 s")

    def test_a_strike_that_landed_once_and_missed_later_has_missed(self) -> None:
        job = Golden().trains(2)
        job[1].is_struck().is_struck(lands=False)
        of = plan(strikes=(struck(faults.Placebo(), 1, point="step"),))
        (reason,) = says(judge(job.trains(1).ends_well().history(), None, of))
        assert reason.endswith("fired, but did not land: ended: not seen within 1 s")

    def test_a_strike_that_fired_and_of_which_nothing_was_seen_did_not_land(self) -> None:
        job = Golden().trains(2)
        job[1].writes("strike", strike=0, phase="fired", point="step", visit=1)
        of = plan(strikes=(struck(faults.Placebo(), 1, point="step"),))
        (reason,) = says(judge(job.trains(1).ends_well().history(), None, of))
        assert reason.endswith("(placebo at rank 1, step 2, step) fired, but did not land")

    def test_a_strike_that_was_only_armed_has_not_fired(self) -> None:
        job = Golden().trains(2)
        job[1].writes("strike", strike=0, phase="armed")
        of = plan(strikes=(struck(faults.Placebo(), 1, step=9),))
        (reason,) = says(judge(job.trains(1).ends_well().history(), None, of))
        assert reason.endswith("never fired: rank 1 came to step 3")

    def test_each_strike_is_looked_for_by_its_own_number(self) -> None:
        job = Golden().trains(2)
        job[1].is_struck(strike=1)
        both = (struck(faults.Placebo(), 1, point="load"), struck(faults.Placebo(), 1, point="step"))
        (reason,) = says(judge(job.trains(1).ends_well().history(), None, plan(strikes=both)))
        assert reason.startswith("strike 0 (placebo at rank 1, step 2, load) never fired: rank 1 at step 2 has ")

    def test_an_overtaken_strike_names_the_one_that_came_before(self) -> None:
        of = plan(strikes=(struck(KILL, 1), struck(faults.FlipBit(), 1, step=3)))
        notes = judge(killed().history(), None, of).notes
        assert any(
            note.startswith("strike 1 (flip_bit(parameter=0, bit=22) at rank 1, step 3, optimize)")
            and note.endswith("was overtaken: strike 0 had struck rank 1 before")
            for note in notes
        )

    def test_points_that_were_visited_several_times_are_counted(self) -> None:
        job = Golden(1)
        job[0].enters("load").enters("collective").enters("collective").enters("optimize").ends_step()
        of = plan(ranks=1, steps=1, strikes=(struck(KILL, 0, step=1, point="save"),))
        (reason,) = says(judge(job.ends_well().history(), None, of))
        # The end of the main module is still of the first step.
        assert reason.endswith("rank 0 at step 1 has load, collective (2 visits), optimize, step, end")

    def test_latency_begins_with_the_first_strike_and_ends_with_the_first_report_after_it(self) -> None:
        job = Golden(3).trains(1)
        job[0].is_struck()
        first = job[0]._events[-1]["t"]
        job[1].is_struck(strike=1)
        job[1].reports("ValueError")
        reported = job[1]._events[1:]
        job[2].reports("ValueError")
        job[0].ends()
        when = next(e["t"] for e in reported if e["kind"] == "report")
        assert judge(job.history(), None, plan(ranks=3)).latency_s == when - first

    def test_a_strike_that_was_armed_and_never_fired_begins_no_latency(self) -> None:
        job = Golden().trains(1)
        job[0].writes("strike", strike=0, phase="armed").reports("ValueError")
        job[1].ends()
        assert judge(job.history(), None, plan()).latency_s is None

    def test_a_report_at_the_very_moment_of_the_strike_came_after_it(self) -> None:
        job = Golden().trains(1)
        job[0].is_struck()
        at_once = next(e["t"] for e in job[0]._events if e["kind"] == "strike")
        job[1].writes("report", type="ValueError", message="", code=1, frames=[], t=at_once).ends(code=1)
        job[0].ends()
        assert judge(job.history(), None, plan()).latency_s == 0.0

    def test_a_strike_that_is_said_to_have_landed_in_an_attempt_without_ranks_has_not_fired(self) -> None:
        job = Golden().trains(3).ends_well()
        job.says("strike", strike=0, rank=1, attempt=1, phase="landed", witness="waitpid")
        job.says("strike", strike=0, rank=1, attempt=1, phase="missed", why="nothing was seen")
        late = Strike(KILL, at(1, 2, attempt=1), ranks=(1,))
        (reason,) = says(judge(job.history(), None, plan(strikes=(late,))))
        assert reason.endswith("never fired: there was no attempt 1")

    def test_points_of_helper_threads_are_not_struck_and_not_told_but_for_ends_of_steps(self) -> None:
        job = Golden(1)
        job[0].enters("load").writes("point", point="collective", visit=1, seq="thread-1")
        job[0].writes("point", point="step", visit=1, seq="thread-1").done = 1
        of = plan(ranks=1, steps=1, strikes=(struck(KILL, 0, step=1, point="save"),))
        (reason, *_) = says(judge(job.ends_well().history(), None, of))
        assert reason.endswith("rank 0 at step 1 has load, step, end")

    def test_the_point_that_was_to_be_struck_is_told_with_its_one_visit(self) -> None:
        job = Golden(1)
        job[0].enters("save").enters("write")
        history = job.ends_well().history()
        anywhere = dataclasses.replace(KILL @ at(0, point="save", visit=2), ranks=(0,))
        (reason, *_) = says(judge(history, None, plan(ranks=1, steps=0, strikes=(anywhere,))))
        assert reason.endswith("rank 0 has save (1 visit), write, end in all")
        late = struck(KILL, 0, step=3, point="save")
        (reason, *_) = says(judge(history, None, plan(ranks=1, steps=0, strikes=(late,))))
        assert "rank 0 has no steps, but save (1 visit), write, end; a trigger" in reason
