"""Waits, parameters that stand still and losses: who waits where for whom, in words, and what is excused."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden, sound

from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def waiting(rank: int, step: int = 2, op: str = "allreduce_", **facts: Any) -> dict[str, Any]:
    """Return where a rank waits; without an operator it was last seen at a point."""
    return {
        "rank": rank,
        "step": step,
        "point": "collective" if op else "forward",
        "op": op,
        "timeout_s": None,
        **facts,
    }


def hung(*where: dict[str, Any], why: str = "participant missing", ranks: Any = None, **facts: Any) -> Finding:
    """Return the finding on a wait that the Conductor ended."""
    job = Golden(4).trains(1)
    said = {"attempt": 0, "why": why, "waiting": [*where], "seconds": 0.1049, "peer": None, "peers": [], **facts}
    job.says("hung", ranks=[w["rank"] for w in where] if ranks is None else ranks, **said)
    (found,) = ask("progress", job.ended_by_us().history(), ranks=4)
    return found


class TestWaits:
    def test_all_evidence_of_a_wait(self) -> None:
        found = hung(waiting(2, 3, timeout_s=1800.0), waiting(0), peer=1, peers=[1], shown_by="rank 1 is away")
        assert found.evidence == {
            **{"where": "all_reduce", "peer": 1, "peers": [1], "seconds": 0.1, "expected": 3, "timeout_s": 1800.0},
            **{"would": ". Would have raised after 1800 s", "absent": "", "wait": "ranks 0 and 2 wait in all_reduce"},
            "circle": "ranks 0 and 2 wait in all_reduce",
            **{"whom": "rank 1", "shown": "rank 1 is away", "elsewhere": "", "cycle": ""},
        }
        assert (found.oracle, found.cause, found.ranks, found.step, found.attempt) == (
            *("progress", "participant missing"),
            *((0, 2), 2, 0),
        )
        assert found.places == ("rank 0: all_reduce, step 2", "rank 2: all_reduce, step 3")

    def test_a_wait_without_a_place_is_one_of_the_job(self) -> None:
        found = hung(why="deadline", ranks=[0, 1])
        assert (found.cause, found.step, found.places) == ("no progress", 0, ())
        assert (found.evidence["wait"], found.evidence["whom"]) == ("the job waits", "another rank")
        assert found.evidence["shown"] == ""

    def test_of_two_waits_that_nobody_is_to_blame_for_the_first_lacks_its_own_alone(self) -> None:
        found = hung(waiting(0, op="barrier", lacks=[1]), waiting(1, lacks=[0]))
        assert found.sentence() == (
            "rank 0 waits in barrier, which rank 1 will never enter; rank 1 waits in all_reduce"
        )

    def test_the_shortest_time_out_that_a_collective_has_would_have_ended_it(self) -> None:
        found = hung(
            waiting(0, timeout_s=90.0), waiting(1, timeout_s=2.5), waiting(2, op="", timeout_s=1.0), waiting(3)
        )
        assert (found.evidence["timeout_s"], found.evidence["would"]) == (2.5, ". Would have raised after 2.5 s")

    def test_ranks_in_no_collective_are_told_as_not_proven_to_stay_away(self) -> None:
        assert hung(waiting(0), waiting(1, op="")).evidence["absent"] == (
            "; not proven: rank 1 is in no collective, and may still move"
        )
        assert hung(waiting(0), waiting(2, op=""), waiting(1, op="")).evidence["absent"] == (
            "; not proven: ranks 1 and 2 are in no collective, and may still move"
        )
        assert hung(waiting(0, op=""), waiting(1, op="")).evidence["absent"] == ""

    def test_a_rank_in_no_collective_was_last_seen_somewhere(self) -> None:
        assert hung(waiting(0, op="")).evidence["wait"] == "rank 0 is last seen in forward"
        assert hung(waiting(0, op=""), waiting(1, op="")).evidence["wait"] == "ranks 0 and 1 are last seen in forward"
        assert hung(waiting(0)).evidence["wait"] == "rank 0 waits in all_reduce"

    def test_the_wait_that_lacks_somebody_is_told_first_and_that_of_the_one_to_blame_last(self) -> None:
        found = hung(waiting(0, op="broadcast_"), waiting(1, op="barrier"), waiting(2, lacks=[3, 0]), peers=[0], peer=0)
        assert found.evidence["wait"] == "rank 2 waits in all_reduce"
        assert found.evidence["elsewhere"] == "; rank 1 waits in barrier; rank 0 waits in broadcast"
        assert found.evidence["whom"] == "rank 0"

    def test_without_a_rank_to_blame_those_that_are_lacking_are_named(self) -> None:
        assert hung(waiting(0, lacks=[3, 1]), waiting(2, lacks=[1])).evidence["whom"] == "ranks 1 and 3"

    def test_threads_that_wait_for_each_other_are_told_with_their_lines(self) -> None:
        locks = [
            {"thread": "thread a", "for": "lock 1", "site": "train.py:7"},
            {"thread": "thread b", "for": "lock 2", "site": ""},
        ]
        assert hung(waiting(0, op=""), why="lock cycle", locks=locks).evidence["cycle"] == (
            "thread a waits for lock 1 (train.py:7); thread b waits for lock 2"
        )


class TestMessageCycles:
    def receives(self, rank: int, peer: int, **facts: Any) -> dict[str, Any]:
        return waiting(rank, op="recv_", p=1, peer=peer, lacks=[peer], site=f"train.py:{rank}", **facts)

    def test_all_that_is_said_of_a_circle(self) -> None:
        found = hung(self.receives(0, 1), self.receives(1, 0), why="message cycle")
        assert (found.cause, found.ranks, found.step) == ("message cycle", (0, 1), 2)
        assert found.sentence() == (
            "rank 0 waits in recv 1 from rank 1 (train.py:0) and rank 1 in recv 1 from rank 0 (train.py:1) at step 2: "
            "each sends only after its own receive"
        )
        assert found.evidence["elsewhere"] == ""

    def test_those_that_wait_beside_it_are_told_after_it(self) -> None:
        circle = [self.receives(1, 3, timeout_s=60.0), self.receives(3, 1)]
        found = hung(*circle, waiting(0, 1, lacks=[1, 3]), waiting(2, lacks=[1]), why="message cycle")
        assert found.sentence() == (
            "rank 1 waits in recv 1 from rank 3 (train.py:1) and rank 3 in recv 1 from rank 1 (train.py:3) at step 2: "
            "each sends only after its own receive; ranks 0 and 2 wait in all_reduce. Would have raised after 60 s"
        )

    def test_its_step_is_that_of_the_first_in_it(self) -> None:
        found = hung(self.receives(0, 1, step=3), self.receives(1, 0), why="message cycle")
        assert " at step 3: each sends" in found.sentence()

    def test_of_another_cause_no_circle_is_told(self) -> None:
        found = hung(self.receives(0, 1), self.receives(1, 0), why="unmatched receive")
        assert found.evidence["wait"] == "rank 0 waits in recv 1 from rank 1 (train.py:0)"

    def test_waits_that_lack_nobody_or_in_collectives_are_in_no_circle(self) -> None:
        loose = waiting(0, op="recv_", p=1, peer=1, site="train.py:0")
        assert hung(loose, self.receives(1, 2), why="message cycle").evidence["circle"] == (
            "rank 1 waits in recv 1 from rank 2 (train.py:1)"
        )
        both = [waiting(0, lacks=[1]), waiting(1, lacks=[0])]
        assert hung(*both, why="message cycle").evidence["circle"] == "ranks 0 and 1 wait in all_reduce"


class TestStandingStill:
    def still(self, *params: str, ranks: int = 1) -> Golden:
        job = Golden(ranks)
        for one in job.ranks:
            for number, digest in enumerate(params):
                one.trains([number], digest)
        return job.ends_well()

    def test_the_first_step_without_a_change_is_named_with_all_its_ranks(self) -> None:
        found = ask("progress", self.still("a", "b", "b", "b", "b", ranks=2).history())
        later = {"later": ", nor at any later one, to step 5"}
        assert found == [Finding("progress", "parameters frozen", (0, 1), 3, 0, evidence=later)]

    def test_one_step_that_changed_nothing_where_the_controls_did_is_told_without_later_ones(self) -> None:
        control = self.still("a", "b", "c").history()
        (found,) = ask("progress", self.still("a", "a", "c").history(), control)
        assert (found.step, found.evidence) == (2, {"later": ""})
        assert found.sentence() == "the parameters of rank 0 did not change at step 2"

    def test_of_several_ranks_that_stand_still_from_several_steps_the_first_is_told(self) -> None:
        job = Golden()
        for one, params in zip(job.ranks, ("abcccccc", "abbbbbbb"), strict=True):
            for number, digest in enumerate(params):
                one.trains([number], digest)
        (found,) = ask("progress", job.ends_well().history())
        assert (found.ranks, found.step, found.evidence) == ((1,), 3, {"later": ", nor at any later one, to step 8"})

    @pytest.mark.parametrize(("params", "steps"), [("abbb", []), ("abbbb", [3]), ("abcdddd", []), ("abcddddd", [5])])
    def test_a_standstill_lasts_three_steps_and_half_of_the_training(self, params: str, steps: list[int]) -> None:
        assert [f.step for f in ask("progress", self.still(*params).history())] == steps

    def test_a_standstill_that_ends_is_none(self) -> None:
        assert ask("progress", self.still(*"aaaaab").history()) == []

    def test_a_rank_that_stands_still_where_the_controls_does_is_excused_alone(self) -> None:
        control = Golden()
        control[0].trains([0], "a").trains([1], "a")
        control[1].trains([0], "a").trains([1], "b")
        (found,) = ask("progress", self.still("a", "a", ranks=2).history(), control.ends_well().history())
        assert (found.ranks, found.step) == ((1,), 2)

    def test_parameters_that_come_back_to_an_earlier_value_have_moved(self) -> None:
        assert ask("progress", self.still("a", "b", "a").history()) == []

    def test_each_attempt_is_looked_at(self) -> None:
        job = self.still(*"aaaa").again()
        for number in range(4):
            job[0].trains([number], "a")
        assert [(f.attempt, f.step) for f in ask("progress", job.ends_well().history())] == [(0, 2), (1, 2)]


class TestLosses:
    def told(self, *losses: dict[str, float], steps: int = 1) -> Golden:
        job = Golden(1).trains(steps)
        for loss in losses:
            job[0].tells_loss(**loss)
        return job.ends_well()

    def test_the_last_loss_with_a_goal_decides(self) -> None:
        (found,) = ask(
            "progress", self.told({"loss": 9.0, "goal": 0.5}, {"loss": 0.7, "goal": 0.6}, {"loss": 0.1}).history()
        )
        assert found == Finding("progress", "loss not decreasing", (0,), 1, 0, (), {"loss": 0.7, "goal": 0.6})
        assert ask("progress", self.told({"loss": 9.0, "goal": 0.5}, {"loss": 0.4, "goal": 0.6}).history()) == []

    def test_a_loss_of_a_later_attempt_is_told_with_it(self) -> None:
        job = self.told().again().trains(1)
        job[0].tells_loss(loss=0.7, goal=0.6)
        assert [f.attempt for f in ask("progress", job.ends_well().history())] == [1]

    def test_a_loss_at_its_goal_has_not_fallen_below_it(self) -> None:
        assert len(ask("progress", self.told({"loss": 0.5, "goal": 0.5}).history())) == 1

    def test_something_else_that_was_told_with_a_goal_is_no_loss(self) -> None:
        job = Golden(1).trains(2)
        job[0].writes("told", name="accuracy", values={"loss": 9.0, "goal": 0.5})
        assert ask("progress", job.ends_well().history()) == []

    def test_says_why_it_abstains(self) -> None:
        with pytest.raises(Abstain) as said:
            ask("progress", sound(steps=1))
        assert str(said.value) == "no rank recorded two steps' parameters, and none told a loss with a goal"
