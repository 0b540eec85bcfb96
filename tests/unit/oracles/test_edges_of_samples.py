"""Samples that a job loses, doubles or changes: which are counted, on which rank, and from which step on."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any

import pytest
from support.asking import ask, objection
from support.golden import Golden, GoldenRank, killed, sound

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def steps(one: GoldenRank, *batches: list[int]) -> None:
    """Let a rank train on these batches, one a step."""
    for batch in batches:
        one.trains(batch)


def resumes(job: Golden, after: int = 2) -> Golden:
    """Let a job of two steps, of which rank 0 saved the last, be started again."""
    job[0].saves()
    job[1].dies(SIGKILL)
    job.ended_by_us().again()
    job[0].restores(f"a0s{after}")
    return job


def draws(one: GoldenRank, plan: str, first: int = 0, width: int = 10) -> int:
    """Let a rank draw batches (`l`), go forward (`f`) and end steps (`.`); return the number of the next batch."""
    for letter in plan:
        if letter == "l":
            one.loads([width * first + one.rank])
            first += 1
        elif letter == "f":
            one.enters("forward")
        else:
            one.ends_step()
    return first


def causes(found: list[Finding]) -> list[tuple[Any, ...]]:
    """Return cause, ranks, step and count of findings."""
    return [(f.cause, f.ranks, f.step, f.evidence["count"]) for f in found]


class TestAbstaining:
    def test_says_why(self) -> None:
        empty = Golden().ends_well().history()
        for history, control, reason in [
            (sound(), None, "there is no control to count samples in"),
            (killed().history(), sound(), "no rank ended well"),
            (empty, empty, "no load was recorded"),
        ]:
            with pytest.raises(Abstain) as said:
                ask("samples", history, control)
            assert str(said.value) == reason

    def test_a_control_that_loaded_and_made_no_step_was_trained_on_nothing(self) -> None:
        control = Golden()
        control[0].loads([1])
        control.ends_well()
        late = {**control.history().ranks}
        moved = [{**e, "step": 9} if e["kind"] == "payload" else e for e in late[0, 0].events]
        late[0, 0] = type(late[0, 0])(0, 0, tuple(moved), 0)  # type: ignore[arg-type]
        with pytest.raises(Abstain) as said:
            ask("samples", sound(), History(late, control.history().conductor))
        assert str(said.value) == "the control was trained on no samples"

    def test_samples_without_numbers_are_told_apart_by_their_digests_if_all_loads_have_them(self) -> None:
        def job(*loads: dict[str, Any]) -> History:
            made = Golden(1)
            for load in loads:
                made[0].enters("load").writes("payload", of="load", batch="b", **load)
                made[0].ends_step()
            return made.ends_well().history()

        both, digests = {"indices": [1], "samples": ["s"]}, {"indices": None, "samples": ["t"]}
        assert causes(ask("samples", job(both, digests), job(both, both))) == [
            ("samples changed", (0,), 2, 1),
        ]
        with pytest.raises(Abstain, match=r"^what was loaded cannot be told apart sample by sample$"):
            ask("samples", job({"indices": [1], "samples": None}, digests), job(both))

    def test_samples_that_are_digested_at_some_steps_only_are_not_counted(self) -> None:
        job = Golden(1)
        job[0].enters("load").writes("payload", of="load", batch="b", indices=None, samples=["s"]).ends_step()
        job[0].enters("load").writes("payload", of="load", batch="c", indices=None).ends_step()
        with pytest.raises(Abstain) as said:
            ask("samples", job.ends_well().history(), job.history())
        assert str(said.value) == "samples without an index are digested at some steps only"


class TestCounting:
    def test_a_sample_that_a_rank_trained_on_twice_is_doubled_where_it_came_the_second_time(self) -> None:
        job = Golden()
        steps(job[0], [0], [10], [10])
        steps(job[1], [1], [11], [21])
        lost, doubled = ask("samples", job.ends_well().history(), sound())
        assert causes([lost, doubled]) == [("samples lost", (0,), 3, 1), ("samples duplicated", (0,), 3, 1)]
        assert lost.evidence == {"count": 1, "expected": 6, "samples": [20], "attempt": 0}
        assert doubled.evidence == {"count": 1, "expected": 6, "samples": [10], "attempt": 0}

    def test_all_ranks_of_a_finding_are_named_and_the_first_ten_samples(self) -> None:
        job = Golden()
        steps(job[0], [0])
        steps(job[1], [1])
        control = Golden()
        steps(control[0], [0], [*range(10, 16)])
        steps(control[1], [1], [*range(20, 26)])
        (lost,) = ask("samples", job.ends_well().history(), control.ends_well().history())
        assert (lost.ranks, lost.step) == ((0, 1), 2)
        assert (lost.evidence["count"], lost.evidence["expected"]) == (12, 14)
        assert lost.evidence["samples"] == [*range(10, 16), *range(20, 24)]

    def test_only_the_samples_of_ranks_that_ended_well_are_missed(self) -> None:
        job = Golden(3).trains(1)
        job[2].dies(SIGKILL)
        job.trains(1, only=0).trains(1, only=1).ends_well()
        control = sound(ranks=3, steps=3)
        assert causes(ask("samples", job.history(), control)) == [("samples lost", (0, 1), 3, 2)]

    def test_a_sample_that_all_ranks_of_the_control_share_is_not_doubled_on_all(self) -> None:
        def shared() -> Golden:
            made = Golden()
            for one in made.ranks:
                steps(one, [0], [1])
            return made.ends_well()

        assert ask("samples", shared().history(), shared().history()) == []

    def test_samples_of_a_step_that_was_not_finished_are_not_in_the_state(self) -> None:
        job = Golden().trains(3)
        job[0].loads([77])
        assert ask("samples", job.ends_well().history(), sound()) == []


class TestShards:
    def test_ranks_on_one_shard_are_named_from_the_first_step_on(self) -> None:
        job = Golden(3)
        for rank, batches in enumerate(([[0], [10]], [[1], [10]], [[2], [12]])):
            steps(job[rank], *batches)
        shared, lost, doubled = ask("samples", job.ends_well().history(), sound(ranks=3, steps=2))
        assert causes([shared]) == [("duplicate shard", (0, 1), 2, 1)]
        assert shared.evidence == {"count": 1, "expected": 6}
        assert causes([lost, doubled]) == [("samples lost", (1,), 2, 1), ("samples duplicated", (1,), 2, 1)]

    def test_one_shard_of_a_later_attempt_is_told_with_it(self) -> None:
        job = Golden().trains(1).ended_by_us().again()
        for one in job.ranks:
            steps(one, [0])
        found = ask("samples", job.ends_well().history(), sound(steps=1))
        assert [(f.cause, f.attempt) for f in found][:1] == [("duplicate shard", 1)]

    def test_batches_that_are_equal_in_the_control_too_are_no_one_shard(self) -> None:
        def job(*extra: list[int]) -> History:
            made = Golden()
            for one in made.ranks:
                steps(one, [0])
            steps(made[0], *extra)
            return made.ends_well().history()

        found = ask("samples", job([5], [5]), job([5], [6]))
        assert [f.cause for f in found] == ["samples lost", "samples duplicated"]

    def test_a_rank_that_loads_one_batch_twice_in_a_step_shares_it_with_nobody(self) -> None:
        job = Golden()
        job[0].loads([0]).loads([0]).ends_step()
        job[1].loads([1]).ends_step()
        found = ask("samples", job.ends_well().history(), sound(steps=1))
        assert [f.cause for f in found] == ["samples duplicated"]

    def test_a_batch_without_a_digest_is_known_by_its_numbers(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.enters("load").writes("payload", of="load", indices=[0, 1], samples=None, batch=None).ends_step()
        shared, *_ = ask("samples", job.ends_well().history(), sound(steps=1))
        assert (shared.cause, shared.ranks, shared.step) == ("duplicate shard", (0, 1), 1)

    def test_empty_batches_are_no_shard(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.loads([]).enters("forward").ends_step()
        job[0].trains([10]).trains([10])
        job[1].trains([11])
        found = ask("samples", job.ends_well().history(), sound(steps=3))
        assert [f.cause for f in found] == ["samples lost", "samples duplicated"]


class TestRestarts:
    def test_the_steps_of_the_state_that_was_restored_and_the_new_ones_count(self) -> None:
        job = resumes(Golden().trains(2))
        history = job.trains(1, first_sample=20).ends_well().history()
        assert ask("samples", history, sound()) == []
        (lost,) = ask("samples", history, sound(steps=4))
        assert (lost.step, lost.attempt, lost.ranks, lost.evidence["attempt"]) == (4, 1, (0, 1), 0)

    def test_the_rank_that_died_keeps_what_it_had_put_into_the_restored_state(self) -> None:
        job = resumes(Golden().trains(2))
        job[1].dies(SIGKILL)
        history = job.trains(1, only=0, first_sample=20).ends_well().history()
        assert ask("samples", history, sound()) == []

    def test_batches_that_are_drawn_to_come_to_the_next_are_told_by_the_controls_pace(self) -> None:
        control, job = Golden(), Golden()
        for one in control.ranks:
            draws(one, "lf.lf.lf.")
        for one in job.ranks:
            draws(one, "lf.lf.")
        resumes(job)
        for one in job.ranks:
            draws(one, "lllf.")
        assert ask("samples", job.ends_well().history(), control.ends_well().history()) == []

    def test_a_batch_that_a_first_attempt_draws_ahead_is_not_one_that_it_skips(self) -> None:
        control, job = Golden(), Golden()
        for one in control.ranks:
            draws(one, "lf.lf.")
        for one in job.ranks:
            draws(one, "llf.lf.")
        assert ask("samples", job.ends_well().history(), control.ends_well().history()) == []

    @pytest.mark.parametrize(
        ("paces", "resumed"),
        [
            # One batch ahead.
            ("llf.lf.lf.", "llf."),
            ("llf.lf.lf.", "lllf."),
            # Two batches for each forward pass.
            ("llf.llf.llf.", "llf."),
            ("llf.llf.llf.", "llllllf."),
        ],
    )
    def test_batches_are_counted_at_the_pace_at_which_the_control_draws_them(self, paces: str, resumed: str) -> None:
        control, job, late = Golden(), Golden(), Golden()
        begun = paces[: paces.index(".", paces.index(".") + 1) + 1]
        for one in control.ranks:
            draws(one, paces)
        ahead = begun.count("l") - (2 if paces.startswith("llf.ll") else 1) * begun.count("f")
        skipped = resumed.count("l") - paces.index("f")
        for made, shift in ((job, 0), (late, 1)):
            for one in made.ranks:
                drawn = draws(one, begun)
            resumes(made)
            for one in made.ranks:
                draws(one, resumed, drawn - ahead - skipped + shift)
        known = control.ends_well().history()
        assert ask("samples", job.ends_well().history(), known) == []
        assert ask("samples", late.ends_well().history(), known)[0].cause == "samples lost"

    def test_a_pace_that_does_not_add_up_is_none(self) -> None:
        """Three batches are drawn at each step, and the last ones are never trained on."""
        control, job = Golden(1), Golden(1)
        draws(control[0], "lf.lllf.lllf.")
        draws(job[0], "lf.lllf.lllf.")
        assert ask("samples", job.ends_well().history(), control.ends_well().history()) == []

    @pytest.mark.parametrize(("paces", "found"), [
        # One batch for most of the passes, although one took none; the last one is ahead of all.
        ("lllf.f.lf.lf.", []),
        # More are drawn than can have been ahead of it.
        ("lf.lf.llf.", ["samples lost", "samples duplicated"]),
    ])  # fmt: skip
    def test_a_batch_that_is_ahead_at_the_end_is_not_counted(self, paces: str, found: list[str]) -> None:
        control, job = Golden(1), Golden(1)
        draws(control[0], paces)
        last = paces.rindex("l")
        drawn = draws(job[0], paces[:last])
        draws(job[0], paces[last:], drawn + 50)
        assert [f.cause for f in ask("samples", job.ends_well().history(), control.ends_well().history())] == found

    def test_where_the_control_goes_forward_before_its_first_batch_none_is_skipped(self) -> None:
        control, job = Golden(), Golden()
        for one in control.ranks:
            draws(one, "f.lf.")
        for one in job.ranks:
            draws(one, "f.")
        resumes(job)
        for one in job.ranks:
            draws(one, "lf.")
        assert ask("samples", job.ends_well().history(), control.ends_well().history()) == []

    def test_of_a_rank_that_came_only_later_nothing_is_in_the_state_that_was_restored(self) -> None:
        job = resumes(Golden(3).trains(2))
        history = job.ends_well().history()
        late = {key: lived for key, lived in history.ranks.items() if key != (0, 2)}
        found = ask("samples", History(late, history.conductor), sound(ranks=3, steps=2))
        assert causes(found) == [("samples lost", (2,), 1, 2)]

    def test_nothing_is_taken_for_drawn_ahead_on_a_rank_that_the_control_has_not(self) -> None:
        job = resumes(Golden(3).trains(2))
        draws(job[2], "lllf.", 5)
        found = ask("samples", job.ends_well().history(), sound(steps=2))
        assert causes(found) == [("samples duplicated", (2,), 1, 5)]


class TestChanged:
    def job(self, *of_rank_1: str) -> History:
        """Return a job of two ranks whose samples have digests, two for rank 0 and those given for rank 1."""
        made = Golden()
        for rank, samples in enumerate((("a", "b"), of_rank_1)):
            for sample in samples:
                made[rank].enters("load").writes("payload", of="load", indices=None, samples=[sample], batch=sample)
                made[rank].ends_step()
        return made.ends_well().history()

    def test_a_changed_sample_is_neither_lost_nor_doubled(self) -> None:
        (changed,) = ask("samples", self.job("c", "d'"), self.job("c", "d"))
        assert causes([changed]) == [("samples changed", (1,), 2, 1)]
        assert changed.evidence == {"count": 1, "expected": 4, "samples": ["d'"], "attempt": 0}

    def test_one_that_is_missing_beside_a_changed_one_is_lost(self) -> None:
        changed, lost = ask("samples", self.job("c'"), self.job("c", "d"))
        assert causes([changed, lost]) == [("samples changed", (1,), 1, 1), ("samples lost", (1,), 2, 1)]

    def test_a_changed_sample_that_comes_twice_is_changed_twice_and_not_doubled(self) -> None:
        (changed,) = ask("samples", self.job("x", "x"), self.job("c", "d"))
        assert causes([changed]) == [("samples changed", (1,), 1, 2)]

    def test_numbers_that_the_control_does_not_know_are_doubled_and_not_changed(self) -> None:
        job = Golden()
        steps(job[0], [0])
        steps(job[1], [99])
        assert objection_causes(job.ends_well().history()) == ["samples lost", "samples duplicated"]


def objection_causes(history: History) -> list[str]:
    """Return the causes of the objections against a control of one step."""
    return [f.cause for f in ask("samples", history, sound(steps=1))]


def test_a_sound_job_whose_ranks_end_at_different_steps_as_the_controls_do_is_left_alone() -> None:
    job = Golden().trains(2).trains(1, only=0).ends_well()
    assert ask("samples", job.history(), job.history()) == []
    assert objection("samples", job.history(), sound()) == ("samples lost", (1,), 3)


def firsts(*loads: tuple[list[int] | None, int]) -> list[Finding]:
    """Return the findings on a job that loads these indices at each step, each the first batch of so many."""
    job = Golden(1)
    for indices, begins in loads:
        more = {"begins": begins} if begins else {}
        job[0].enters("load").writes("payload", of="load", indices=indices, **more)
        job[0].enters("forward").enters("optimize").ends_step()
    return ask("samples", job.ends_well().history(), ranks=1)


def test_one_batch_that_is_begun_again_at_each_step_is_named_without_a_control() -> None:
    (found,) = firsts(([5], 3), *[([1, 2], 8)] * 4)
    assert (found.cause, found.ranks, found.step, found.evidence["batches"]) == ("first batch again", (0,), 2, 8)
    assert "on one batch at 4 steps in a row, the first at step 2" in found.sentence()


@pytest.mark.parametrize("loads", [
    [([1, 2], 8)] * 3,
    [([1, 2], 1)] * 6,
    [([1, 2], 0)] * 6,
    [([n, n + 1], 8) for n in range(6)],
    [([1, 2], 8), ([3, 4], 0)] * 6,
    [(None, 8)] * 6,
])  # fmt: skip
def test_iterators_that_are_used_as_they_may_be_are_none_to_object_to(loads: Any) -> None:
    with pytest.raises(Abstain):
        firsts(*loads)


@pytest.mark.parametrize(("control_too", "cause"), [(True, "first batch again"), (False, "samples lost")])
def test_batches_that_are_drawn_again_are_told_as_such_where_the_control_draws_so_too(
    control_too: bool, cause: str
) -> None:
    def job(again: bool) -> History:
        made = Golden()
        for step in range(6):
            for one in made.ranks:
                first = 0 if again else step
                one.enters("load").writes("payload", of="load", indices=[10 * first + one.rank], samples=None, begins=6)
                one.enters("forward").enters("optimize").ends_step()
        return made.ends_well().history()

    found = ask("samples", job(again=True), job(again=control_too), steps=6)
    assert found[0].cause == cause
