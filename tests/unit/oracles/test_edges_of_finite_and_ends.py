"""Numbers that are not finite, and work that is left undone: the first step, its ranks, and what is compared."""

from __future__ import annotations

from signal import SIGABRT, SIGKILL
from typing import Any

import pytest
from support.asking import ask, objection
from support.golden import Golden, sound

from breakrank.oracles import Abstain
from breakrank.verdict import Finding

NAN = float("nan")


def finite(job: Golden) -> list[Finding]:
    return ask("finite", job.history())


class TestFinite:
    def test_says_why_it_abstains(self) -> None:
        job = Golden()
        job[0].writes("told", name="stage", values={"name": "warm-up"}).writes("payload", of="save", finite=False)
        job[0].enters("load").exits(0)
        job[1].writes("end", how="returned", code=0, params="p", norm=None, finite=None, state=None).exits(0)
        with pytest.raises(Abstain) as said:
            finite(job)
        assert str(said.value) == "no rank recorded a number"

    def test_each_attempt_has_a_finding_of_its_own(self) -> None:
        job = Golden().trains(1)
        job[0].trains([0], finite=False)
        job[1].dies(SIGKILL)
        job.ended_by_us().again().trains(2)
        job[1].trains([1], finite=False)
        found = finite(job.ends_well())
        assert [(f.attempt, f.step, f.ranks) for f in found] == [(0, 2, (0,)), (1, 3, (1,))]

    def test_an_attempt_in_which_all_is_finite_has_none(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again().trains(1)
        job[1].trains([1], finite=False)
        assert [f.attempt for f in finite(job.ends_well())] == [1]

    def test_an_end_says_since_when_it_was_not_looked_at(self) -> None:
        job = Golden(1).trains(3)
        job[0].ends(finite=False, since=1)
        (found,) = finite(job)
        assert (found.step, found.evidence["since"]) == (3, 1)

    def test_all_ranks_that_held_it_in_that_step_are_named(self) -> None:
        job = Golden(3).trains(1)
        for rank in (2, 0):
            job[rank].trains([rank], finite=False)
        job[1].trains([1]).trains([1], finite=False)
        (found,) = finite(job.ends_well())
        assert found == Finding("finite", "non-finite value", (0, 2), 2, 0, (), {"what": "NaN or infinite parameters"})

    def test_of_what_was_not_finite_in_a_step_that_of_the_fewest_ranks_is_named(self) -> None:
        job = Golden(3).trains(1)
        for one in job.ranks:
            one.enters("load")
            if one.rank:
                one.tells_loss(loss=NAN)
            if one.rank == 2:
                one.writes("payload", of="load", samples=None, batch="b", finite=False)
            one.ends_step(finite=False)
        (found,) = finite(job.ends_well())
        assert (found.ranks, found.evidence["what"]) == ((2,), "a NaN or infinite batch")

    def test_a_number_is_looked_for_in_all_that_a_rank_told(self) -> None:
        job = Golden(1).trains(1)
        job[0].writes("told", name="metrics", values={"epoch": 1, "name": "a", "loss": NAN})
        (found,) = finite(job.ends_well())
        assert found.sentence() == "a NaN or infinite metrics in rank 0 at step 1"

    def test_parameters_at_the_end_are_looked_at(self) -> None:
        job = Golden(1).trains(1)
        job[0].ends(finite=False)
        assert objection("finite", job.history()) == ("non-finite value", (0,), 1)

    @pytest.mark.parametrize(("unfit", "which"), [([], ""), ([2, 3], " of replica 2")])
    def test_the_first_replica_whose_batch_it_was_is_named(self, unfit: list[int], which: str) -> None:
        job = Golden(1)
        job[0].enters("load").writes("payload", of="load", samples=None, batch="b", finite=False, unfit=unfit)
        (found,) = finite(job.ends_well())
        assert found.evidence["what"] == f"a NaN or infinite batch{which}"


class TestEnds:
    def test_says_why_it_abstains(self) -> None:
        with pytest.raises(Abstain) as said:
            ask("ends", Golden().trains(1).history())
        assert str(said.value) == "no rank has an end on record"
        with pytest.raises(Abstain) as said:
            ask("ends", sound(), steps=0)
        assert str(said.value) == "nothing says how many steps the job has"

    def test_a_control_says_how_many_steps_there_are_where_the_job_does_not(self) -> None:
        (found,) = ask("ends", sound(steps=2), sound(steps=3), steps=0)
        assert found == Finding("ends", "training incomplete", (0, 1), 2, 0, (), {"done": 2, "expected": 3})

    def test_each_rank_is_measured_by_its_own_of_the_control(self) -> None:
        control = Golden().trains(2).trains(1, only=1).ends_well()
        (found,) = ask("ends", sound(steps=2), control.history(), steps=9)
        assert (found.ranks, found.evidence) == ((1,), {"done": 2, "expected": 3})

    def test_a_rank_whose_control_failed_or_is_none_is_measured_by_the_job(self) -> None:
        control = Golden().trains(2)
        control[0].ends()
        control[1].reports("ValueError")
        (found,) = ask("ends", sound(steps=2), control.history(), steps=4)
        assert (found.ranks, found.evidence) == ((1,), {"done": 2, "expected": 4})
        (found,) = ask("ends", sound(ranks=3, steps=2), sound(ranks=2, steps=2), steps=4)
        assert (found.ranks, found.evidence) == ((2,), {"done": 2, "expected": 4})

    def test_ranks_that_made_unequal_numbers_of_steps_have_findings_of_their_own_in_order(self) -> None:
        job = Golden(3).trains(1).trains(1, only=0).trains(1, only=2)
        found: list[Any] = ask("ends", job.ends_well().history(), ranks=3)
        assert [(f.step, f.ranks) for f in found] == [(1, (1,)), (2, (0, 2))]

    def test_a_rank_without_an_end_is_left_out(self) -> None:
        job = Golden().trains(2)
        job[0].ends()
        assert objection("ends", job.history()) == ("training incomplete", (0,), 2)

    def test_a_rank_that_aborted_after_too_few_steps_is_none_that_ended_well_unless_it_came_to_its_end(self) -> None:
        job = Golden().trains(2)
        job[0].ends(status=-SIGABRT)
        job[1].dies(SIGABRT)
        assert objection("ends", job.history()) == ("training incomplete", (0,), 2)
