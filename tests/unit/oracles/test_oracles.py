"""Each oracle objects to its broken golden history with the right rank, step and cause, and to no sound one."""

from __future__ import annotations

from signal import SIGABRT, SIGKILL

import pytest
from support.asking import ask, objection
from support.golden import Golden, killed, sound

from breakrank.history.reader import History
from breakrank.oracles import Abstain, all_oracles


def with_checkpoints(steps: int = 3) -> Golden:
    """Return a job whose rank 0 saves after every step, still alive."""
    job = Golden()
    for _ in range(steps):
        job.trains(1)
        job[0].saves()
    return job


@pytest.mark.parametrize("oracle", all_oracles())
def test_no_oracle_objects_to_a_sound_history_that_is_its_own_control(oracle: str) -> None:
    job = with_checkpoints()
    job.ranks[0].tells_loss(loss=0.3, goal=0.6)
    summed = {"digest": "d", "n": 1, "sum": 2.0, "abs": 2.0, "max": 2.0, "min": 2.0}
    for one in job.ranks:
        one.enters("collective", c=1, reduce="SUM", **{"in": [{**summed, "digest": "e", "sum": 1.0}]})
        one.writes("done", op="allreduce_", group="0", c=1, out=[summed], kept=True)
        one.accesses("r", one.rank, lo=0, hi=4).is_placed().writes("inputs", gradients=["a"])
        one.writes("buffers", train=True, first="mean", buffers="b")
        for step in range(1, 61):
            one.writes("census", step=step, lines=[]).writes("heap", step=step, bytes=1000)
    history = job.ends_well().history()
    assert ask(oracle, history, history, reference=sound(ranks=1)) == []


@pytest.mark.parametrize("oracle", ["control", "samples", "checkpoint"])
def test_an_oracle_that_compares_abstains_without_a_control(oracle: str) -> None:
    with pytest.raises(Abstain, match="no control"):
        ask(oracle, sound())


class TestEnds:
    def test_objects_to_an_exit_0_with_work_left_undone(self) -> None:
        job = Golden().trains(2)
        job[1].exits(0)
        job.trains(1, only=0).ends_well()
        assert objection("ends", job.history()) == ("training incomplete", (1,), 2)

    def test_measures_by_the_control_where_there_is_one(self) -> None:
        assert objection("ends", sound(steps=3), sound(steps=4), steps=3) == ("training incomplete", (0, 1), 3)

    def test_leaves_a_rank_alone_that_aborts_after_its_work_was_over(self) -> None:
        job = Golden().trains(3)
        job[1].ends(status=-SIGABRT)
        assert ask("ends", job.ends_well().history()) == []

    def test_counts_the_steps_that_a_restarted_job_restored(self) -> None:
        job = with_checkpoints(2)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        assert ask("ends", job.trains(1).ends_well().history()) == []
        (finding,) = ask("ends", job.history(), steps=4)
        assert (finding.step, finding.attempt) == (1, 1)
        assert finding.sentence() == "ranks 0 and 1 ended with exit code 0 after 3 of 4 steps"

    def test_has_no_objection_to_a_rank_that_reported(self) -> None:
        job = Golden().trains(1)
        job[0].reports("ValueError")
        job[1].dies(SIGKILL)
        assert ask("ends", job.history()) == []

    def test_abstains_where_no_rank_has_ended(self) -> None:
        with pytest.raises(Abstain, match="no rank has an end"):
            ask("ends", Golden().trains(1).history())


class TestProgress:
    def test_objects_to_a_wait_for_a_rank_that_stands_still(self) -> None:
        job = Golden().trains(1)
        job[0].loads([1]).enters("collective")
        job.hangs([0], "peer stopped", peer=1)
        (finding,) = ask("progress", job.history())
        assert (finding.cause, finding.ranks, finding.step) == ("peer stopped", (0,), 2)
        assert finding.sentence() == "rank 0 waits in all_reduce at step 2 for rank 1, which stands still"

    def test_objects_to_a_wait_for_a_rank_that_has_ended(self) -> None:
        job = Golden().trains(1)
        job[0].enters("collective")
        job[1].ends()
        assert objection("progress", job.hangs([0], "peer ended", peer=1).history()) == ("peer ended", (0,), 1)

    def test_objects_to_a_wait_for_what_cannot_arrive(self) -> None:
        job = Golden().trains(1)
        job[0].enters("collective")
        job.hangs([0], "unreachable", shown_by="nothing arrives at rank 0 from rank 1")
        (finding,) = ask("progress", job.history())
        assert (finding.cause, finding.ranks, finding.step) == ("unreachable", (0,), 1)
        assert finding.sentence() == "rank 0 waits in all_reduce, and nothing arrives at rank 0 from rank 1"

    @pytest.mark.parametrize(
        ("why", "cause"),
        [("deadline", "no progress"), ("deadlock", "deadlock"), ("endless training", "endless training")],
    )
    def test_objects_to_whatever_else_the_conductor_had_to_end(self, why: str, cause: str) -> None:
        job = Golden().trains(1)
        assert objection("progress", job.hangs([0, 1], why).history()) == (cause, (0, 1), 1)

    def test_objects_to_parameters_that_stand_still_to_the_end(self) -> None:
        job = Golden().trains(1)
        for _ in range(3):
            job[1].trains([1], params="p1")
        job.trains(3, only=0)
        (finding,) = ask("progress", job.ends_well().history())
        assert (finding.cause, finding.ranks, finding.step) == ("parameters frozen", (1,), 2)
        assert finding.sentence() == (
            "the parameters of rank 1 did not change at step 2, nor at any later one, to step 4"
        )

    @pytest.mark.parametrize(
        "params",
        [
            # A step without a wrong sample, and a rate of 0 at the first steps.
            ("p1", "p1", "p2", "p2", "p3", "p4"),
            ("p1", "p1", "p1", "p1", "p2", "p3", "p4", "p5"),
            # Few steps at the end of a long training, and two steps in all.
            ("p1", "p2", "p3", "p4", "p5", "p5", "p5", "p5"),
            ("p1", "p1"),
        ],
    )
    def test_leaves_alone_steps_that_had_nothing_to_change(self, params: tuple[str, ...]) -> None:
        job = Golden(1)
        for one in params:
            job[0].trains([0], params=one)
        assert ask("progress", job.ends_well().history()) == []

    def test_excuses_a_step_that_moves_no_rank_if_another_one_does(self) -> None:
        job = Golden()
        for rank in job.ranks:
            rank.trains([0], params="p0").trains([1], params="p0").trains([2], params="p1")
        assert ask("progress", job.ends_well().history()) == []

    def test_objects_to_parameters_that_never_move_on_any_rank(self) -> None:
        job = Golden()
        for rank in job.ranks:
            for sample in range(4):
                rank.trains([sample], params="p0")
        assert objection("progress", job.ends_well().history()) == ("parameters frozen", (0, 1), 2)

    def test_leaves_alone_parameters_that_are_no_longer_numbers(self) -> None:
        job = Golden(1)
        for _ in range(5):
            job[0].trains([0], params="nan", finite=False)
        assert ask("progress", job.ends_well().history()) == []

    def test_excuses_a_standstill_of_the_control(self) -> None:
        job = Golden(1)
        for _ in range(5):
            job[0].trains([0], params="p1")
        history = job.ends_well().history()
        assert ask("progress", history, history) == []

    def test_objects_to_one_step_that_changed_the_control(self) -> None:
        job, model = Golden(1), Golden(1)
        job[0].trains([0], params="p1").trains([1], params="p1").trains([2], params="p2")
        model[0].trains([0], params="p1").trains([1], params="p2").trains([2], params="p3")
        found = objection("progress", job.ends_well().history(), model.ends_well().history())
        assert found == ("parameters frozen", (0,), 2)

    def test_leaves_alone_a_step_of_a_training_that_had_parted_before(self) -> None:
        job, model = Golden(1), Golden(1)
        job[0].trains([0], params="q1").trains([1], params="q1").trains([2], params="q2")
        model[0].trains([0], params="p1").trains([1], params="p2").trains([2], params="p3")
        assert ask("progress", job.ends_well().history(), model.ends_well().history()) == []

    @pytest.mark.parametrize("loss", [0.6, float("nan")])
    def test_objects_to_a_last_loss_that_is_not_below_its_goal(self, loss: float) -> None:
        job = Golden(1).trains(2)
        job[0].tells_loss(loss=0.1).tells_loss(loss=loss, goal=0.6)
        assert objection("progress", job.ends_well().history()) == ("loss not decreasing", (0,), 2)

    def test_leaves_the_loss_of_a_rank_alone_that_reported(self) -> None:
        job = Golden(1).trains(2)
        job[0].tells_loss(loss=9.0, goal=0.6).reports("ValueError", "loss too high")
        assert ask("progress", job.history()) == []

    def test_leaves_a_loss_without_a_goal_alone(self) -> None:
        job = Golden(1).trains(2)
        job[0].tells_loss(loss=9.0)
        assert ask("progress", job.ends_well().history()) == []

    def test_abstains_with_one_step_and_no_goal(self) -> None:
        with pytest.raises(Abstain, match="two steps"):
            ask("progress", sound(steps=1))


class TestFinite:
    def test_objects_to_the_first_step_with_parameters_that_are_not_finite(self) -> None:
        job = Golden().trains(1)
        job[0].trains([0])
        job[1].trains([1], finite=False, norm=None)
        job[0].trains([2], finite=False)
        assert objection("finite", job.ends_well().history()) == ("non-finite value", (1,), 2)

    def test_objects_to_a_loss_that_is_not_finite(self) -> None:
        job = Golden().trains(1)
        job[0].tells_loss(loss=float("inf"))
        (finding,) = ask("finite", job.ends_well().history())
        assert finding.sentence() == "a NaN or infinite loss in rank 0 at step 1"

    def test_names_the_rank_whose_batch_it_was_where_the_parameters_of_all_are_not_finite(self) -> None:
        job = Golden().trains(1)
        job[0].loads([1]).ends_step(finite=False)
        job[1].enters("load").writes("payload", of="load", samples=None, batch="b", finite=False)
        job[1].ends_step(finite=False)
        assert objection("finite", job.ends_well().history()) == ("non-finite value", (1,), 2)

    def test_names_the_replica_whose_batch_it_was(self) -> None:
        job = Golden(1)
        job[0].enters("load").writes("payload", of="load", samples=None, batch="b", finite=False, unfit=[1])
        (finding,) = ask("finite", job.ends_well().history())
        assert finding.sentence() == "a NaN or infinite batch of replica 1 in rank 0 at step 1"

    def test_objects_although_no_rank_ended_well(self) -> None:
        job = Golden(1)
        job[0].trains([0], finite=False).reports("ValueError")
        assert objection("finite", job.history()) == ("non-finite value", (0,), 1)

    def test_abstains_where_no_number_was_recorded(self) -> None:
        job = Golden()
        job[0].enters("load").exits(0)
        with pytest.raises(Abstain, match="no rank recorded a number"):
            ask("finite", job.history())


class TestReplicas:
    def test_names_the_minority_of_three(self) -> None:
        job = Golden(3).trains(1)
        job[0].trains([0])
        job[1].trains([1], params="flipped")
        job[2].trains([2])
        (finding,) = ask("replicas", job.ends_well().history())
        assert (finding.cause, finding.ranks, finding.step) == ("replicas differ", (1,), 2)
        assert finding.sentence() == "the parameters of rank 1 part from those of ranks 0 and 2 at step 2"

    def test_names_of_two_the_one_that_differs_from_the_control(self) -> None:
        job = Golden().trains(1)
        job[0].trains([0], params="flipped")
        job[1].trains([1])
        assert objection("replicas", job.ends_well().history(), sound()) == ("replicas differ", (0,), 2)

    def test_names_both_of_two_without_a_control(self) -> None:
        job = Golden().trains(1)
        job[0].trains([0], params="flipped")
        job[1].trains([1])
        (finding,) = ask("replicas", job.ends_well().history())
        assert finding.sentence() == "the parameters of ranks 0 and 1 part from each other at step 2"

    def test_objects_to_replicas_that_part_after_the_last_step(self) -> None:
        job = Golden().trains(3)
        job[0].ends(params="other")
        assert objection("replicas", job.ends_well().history(), sound()) == ("replicas differ", (0,), 3)

    def test_abstains_unless_two_ranks_ended_well(self) -> None:
        with pytest.raises(Abstain, match="no two replicas"):
            ask("replicas", killed().history())


class TestSamples:
    def test_objects_to_shards_handed_out_twice(self) -> None:
        job = Golden()
        for rank in (0, 1):
            for step in range(3):
                job[rank].trains([10 * step])
        shared, lost, doubled = ask("samples", job.ends_well().history(), sound())
        assert (shared.cause, shared.ranks, shared.step) == ("duplicate shard", (0, 1), 1)
        assert (lost.cause, lost.ranks, lost.step, lost.evidence["count"]) == ("samples lost", (1,), 1, 3)
        assert (doubled.cause, doubled.ranks, doubled.step) == ("samples duplicated", (1,), 1)
        assert lost.sentence() == "3 of 6 samples did not reach the final state, the first at step 1"

    def test_objects_to_samples_that_were_changed_on_their_way(self) -> None:
        def job(*of_rank_1: str) -> Golden:
            made = Golden()
            for rank, samples in enumerate((("a", "b"), of_rank_1)):
                made[rank].enters("load").writes("payload", of="load", indices=None, samples=[*samples], batch="b")
                made[rank].ends_step()
            return made.ends_well()

        (changed,) = ask("samples", job("c'", "d").history(), job("c", "d").history())
        assert (changed.cause, changed.ranks, changed.step) == ("samples changed", (1,), 1)
        assert changed.sentence().startswith("1 of the samples of rank 1 are none of the control's")
        assert ask("samples", job("c", "d").history(), job("c", "d").history()) == []

    def test_names_the_step_at_which_the_first_sample_is_missing(self) -> None:
        job = Golden().trains(2).trains(1, only=0).ends_well()
        assert objection("samples", job.history(), sound()) == ("samples lost", (1,), 3)

    def test_counts_the_steps_that_the_restored_state_contains(self) -> None:
        job = with_checkpoints(2).trains(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        assert ask("samples", job.trains(1, first_sample=20).ends_well().history(), sound()) == []

    def test_objects_to_samples_that_a_resumed_job_skipped(self) -> None:
        job = with_checkpoints(1).trains(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s1")
        history = job.trains(1, first_sample=20).ends_well().history()
        assert objection("samples", history, sound()) == ("samples lost", (0, 1), 2)

    def test_objects_to_samples_that_a_resumed_job_trained_on_again(self) -> None:
        job = with_checkpoints(2)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        history = job.trains(3).ends_well().history()
        (finding,) = ask("samples", history, sound())
        assert (finding.cause, finding.ranks, finding.step) == ("samples duplicated", (0, 1), 1)
        assert finding.sentence().endswith("the first at step 1 of attempt 1")

    def test_leaves_batches_alone_that_are_drawn_only_to_come_to_the_next(self) -> None:
        job = with_checkpoints(2)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        for one in job.ranks:
            one.loads([one.rank]).loads([10 + one.rank])
        assert ask("samples", job.trains(1, first_sample=20).ends_well().history(), sound()) == []

    @pytest.mark.parametrize(("skips", "causes"), [(True, []), (False, ["samples lost", "samples duplicated"])])
    def test_knows_a_batch_that_was_drawn_ahead_of_its_step(self, skips: bool, causes: list[str]) -> None:
        def goes_on(job: Golden, first: int, last: int) -> None:
            for one in job.ranks:
                one.loads([10 * first + one.rank])
            for number in range(first, last):
                for one in job.ranks:
                    one.loads([10 * (number + 1) + one.rank])
                    for point in ("forward", "backward", "collective", "optimize"):
                        one.enters(point)
                    one.ends_step()

        control, job = Golden(), Golden()
        goes_on(control, 0, 3)
        goes_on(job, 0, 2)
        job[0].saves()
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        goes_on(job, 2 if skips else 1, 3 if skips else 2)
        found = ask("samples", job.ends_well().history(), control.ends_well().history())
        assert [f.cause for f in found] == causes

    def test_follows_a_state_through_three_attempts(self) -> None:
        job = with_checkpoints(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s1")
        job.trains(1, first_sample=10)
        job[0].saves()
        job[0].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a1s1")
        assert ask("samples", job.trains(1, first_sample=20).ends_well().history(), sound()) == []

    def test_forgets_an_attempt_after_which_nothing_was_restored(self) -> None:
        job = with_checkpoints(2)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        assert ask("samples", job.trains(3).ends_well().history(), sound()) == []

    def test_does_not_blame_a_survivor_for_the_samples_of_a_killed_rank(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        assert ask("samples", job.trains(2, only=0).ends_well().history(), sound()) == []

    def test_does_not_blame_a_survivor_that_takes_over_the_samples_of_a_killed_rank(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        job[0].trains([10, 11]).trains([20, 21])
        assert ask("samples", job.ends_well().history(), sound()) == []

    def test_abstains_where_no_rank_ended_well(self) -> None:
        with pytest.raises(Abstain, match="no rank ended well"):
            ask("samples", killed().history(), sound())

    def test_abstains_where_samples_cannot_be_told_apart(self) -> None:
        job = Golden(1)
        job[0].enters("load").writes("payload", of="load", indices=None, samples=None, batch="b")
        history = job.ends_well().history()
        with pytest.raises(Abstain, match="sample by sample"):
            ask("samples", history, history)


class TestControl:
    @pytest.mark.parametrize(("left", "objects"), [("same", False), ("other", True)])
    def test_compares_what_modules_are_left_with_where_nothing_trains(self, left: str, objects: bool) -> None:
        def job(left: str) -> History:
            made = Golden()
            for one in made.ranks:
                one.enters("collective").writes("end", how="returned", code=None, state=None, modules=left)
                one.status = 0
            return made.history()

        found = ask("control", job(left), job("same"))
        assert [(one.cause, one.ranks) for one in found] == [("wrong result", (0, 1))] * objects

    def test_objects_to_other_parameters_and_names_the_first_step(self) -> None:
        job = Golden().trains(1)
        for rank in (0, 1):
            job[rank].trains([rank], params="wrong").trains([rank], params="wronger")
        assert objection("control", job.ends_well().history(), sound()) == ("wrong result", (0, 1), 2)

    def test_names_the_rank_that_alone_had_another_batch_at_the_first_step(self) -> None:
        def job(shape: list[int], params: str) -> Golden:
            made = Golden()
            for one in made.ranks:
                form = shape if one.rank else [8]
                held = {"indices": None, "samples": None, "batch": str(form), "shapes": [form]}
                one.enters("load").writes("payload", of="load", **held)
                one.ends_step(params)
            return made.ends_well()

        (finding,) = ask("control", job([8, 1], "wrong").history(), job([8], "right").history())
        assert (finding.cause, finding.ranks, finding.step) == ("batch mismatch", (1,), 1)
        assert finding.sentence().endswith("where rank 1 alone had another batch, of shape [8, 1] and not [8]")

    @pytest.mark.parametrize(
        ("lacking", "usual", "cause", "says"),
        [
            (
                {"replicas": [1], "kept": False},
                None,
                "replica not aggregated",
                "no gradient of replica 1 of rank 0 goes",
            ),
            ({"replicas": [0, 1], "kept": True}, None, "stale gradients", "into w goes what was kept, and no gradient"),
            # The control does the same, and comes to its own result; or the event came later than the difference.
            ({"replicas": [1], "kept": False}, {"replicas": [1], "kept": False}, "wrong result", ""),
            ({"replicas": [1], "kept": False, "step": 2}, None, "wrong result", ""),
        ],
        ids=["left-out", "stale", "as-in-the-control", "later"],
    )
    def test_names_the_replicas_whose_gradients_go_into_no_update(self, lacking, usual, cause, says) -> None:
        def job(params: str, lack: dict[str, object] | None) -> Golden:
            made = Golden(1)
            made[0].trains([1], params=params)
            made[0].writes("names", names=["w"], eps=0.0)
            if lack is not None:
                made[0].writes("lack", parts=[0], of=2, site="train.py:7", **lack)
            return made.ends_well()

        (finding,) = ask("control", job("wrong", lacking).history(), job("right", usual).history())
        assert (finding.cause, finding.ranks, finding.step) == (cause, (0,), 1)
        assert says in finding.sentence()
        assert finding.places == (("train.py:7",) if says else ())

    def test_has_nothing_against_a_lack_that_changes_no_result(self) -> None:
        job = Golden(1).trains(1)
        job[0].writes("lack", parts=[0], of=2, site="train.py:7", replicas=[1], kept=False)
        assert ask("control", job.ends_well().history(), Golden(1).trains(1).ends_well().history()) == []

    def test_objects_to_the_rank_alone_that_differs(self) -> None:
        job = Golden().trains(3)
        job[1].ends(params="flipped")
        assert objection("control", job.ends_well().history(), sound()) == ("wrong result", (1,), 3)

    def test_compares_norms_within_the_tolerance(self) -> None:
        job = Golden().trains(3)
        job[0].ends(params="rounded", norm=1.0009)
        job[1].ends(params="rounded", norm=1.0011)
        history = job.history()
        assert objection("control", history, sound(), tolerance=0.001) == ("wrong result", (1,), 3)

    def test_compares_only_the_ends_after_a_restart(self) -> None:
        job = with_checkpoints(2)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("a0s2")
        for rank in (0, 1):
            job[rank].trains([20 + rank], params="p3")
        assert ask("control", job.ends_well().history(), sound()) == []

    def test_names_the_step_of_a_wrong_result_after_a_restart_here_and_in_the_control(self) -> None:
        job = self.resumed("a0s1")
        for rank in (0, 1):
            job[rank].trains([10 + rank], params="p2").trains([20 + rank], params="off")
        (finding,) = ask("control", job.ends_well().history(), sound())
        assert (finding.cause, finding.ranks, finding.step, finding.attempt) == ("wrong result", (0, 1), 2, 1)
        assert finding.sentence().endswith("first at step 2 of attempt 1 (step 3 of the control)")

    def test_names_the_step_before_a_restart_at_which_a_result_went_wrong(self) -> None:
        job = self.resumed("a0s2", params="off")
        for rank in (0, 1):
            job[rank].trains([20 + rank], params="further off")
        (finding,) = ask("control", job.ends_well().history(), sound())
        assert finding.sentence().endswith(
            "first at step 1 of attempt 1 (and before it at step 1 of attempt 0, step 1 of the control)"
        )

    def test_finds_out_by_the_control_where_a_restart_went_on_that_restored_nothing_on_record(self) -> None:
        job = self.resumed("")
        for rank in (0, 1):
            job[rank].trains([10 + rank], params="p2").trains([20 + rank], params="off")
        (finding,) = ask("control", job.ends_well().history(), sound())
        assert finding.sentence().endswith("first at step 2 of attempt 1 (step 3 of the control)")

    @staticmethod
    def resumed(file: str, params: str | None = None) -> Golden:
        """Return a job that was killed after two saved steps and started again, and restored the file, if any."""
        job = Golden()
        for step in (1, 2):
            for rank in (0, 1):
                job[rank].trains([10 * (step - 1) + rank], params)
            job[0].saves()
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        if file:
            job[0].restores(file)
        return job

    def test_compares_what_the_program_named_in_place_of_the_parameters(self) -> None:
        job = Golden().trains(3)
        job[0].ends(params="another order", state={"updates": 6})
        assert ask("control", job.history(), self.locked()) == []

    def test_locates_the_first_lost_update_in_the_accesses(self) -> None:
        job = Golden().trains(1)
        job[0].enters("optimize").accesses("r", 1)
        job[1].enters("optimize").accesses("r", 2)
        job[0].accesses("w", 3).ends_step()
        job[1].accesses("w", 4).ends_step()
        for rank in (0, 1):
            job[rank].ends(state={"updates": 4})
        (finding,) = ask("control", job.history(), self.locked(5))
        assert (finding.cause, finding.ranks, finding.step) == ("lost update", (0, 1), 2)
        assert [(e["rank"], e["mode"]) for e in finding.evidence["events"]] == [(0, "r"), (1, "r"), (0, "w"), (1, "w")]
        said = "4 of 5 updates arrived: rank 1 overwrote the update of rank 0 at step 2"
        assert finding.sentence() == said

    def test_takes_a_read_modify_write_for_one_move_that_can_be_overwritten(self) -> None:
        job = Golden().trains(1)
        job[1].accesses("r", 1)
        job[0].accesses("rw", 2)
        job[1].accesses("w", 3)
        for rank in (0, 1):
            job[rank].ends(state={"updates": 1})
        (finding,) = ask("control", job.history(), self.locked(2))
        assert [(e["rank"], e["mode"]) for e in finding.evidence["events"]] == [(1, "r"), (0, "rw"), (1, "w")]

    def test_finds_no_lost_update_where_turns_do_not_overlap(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("r", 1).accesses("w", 2)
        job[1].accesses("r", 3).accesses("w", 4).accesses("rw", 5)
        job[0].accesses("rw", 6)
        for rank in (0, 1):
            job[rank].ends(state={"updates": 1})
        (finding,) = ask("control", job.history(), self.locked(2))
        assert finding.evidence["events"] == []
        assert "no access on record shows which" in finding.sentence()

    def test_calls_updates_of_a_rank_that_was_gone_a_wrong_result_and_not_lost(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        job[0].ends(state={"updates": 4})
        assert objection("control", job.history(), self.locked(6)) == ("wrong result", (0,), 1)

    def test_abstains_where_no_rank_ended_well(self) -> None:
        with pytest.raises(Abstain, match="no rank ended well"):
            ask("control", killed().history(), sound())

    def test_abstains_where_nothing_comparable_was_recorded(self) -> None:
        job = Golden(1)
        job[0].enters("load").ends(params=None)
        with pytest.raises(Abstain, match="no rank recorded its parameters"):
            ask("control", job.history(), job.history())

    def locked(self, updates: int = 6) -> History:
        """Return the control in which every update arrived."""
        job = Golden().trains(3)
        for one in job.ranks:
            one.ends(state={"updates": updates})
        return job.history()


class TestCheckpoint:
    def control(self) -> History:
        return with_checkpoints().ends_well().history()

    @pytest.mark.parametrize(("lacking", "unread"), [("Object not assigned", ""), ("", "Unresolved object")])
    def test_objects_to_a_restore_that_left_out_what_the_controls_did_not(self, lacking: str, unread: str) -> None:
        def job(**left_out: str) -> History:
            made = Golden(1)
            said = {"path": "model", "lacking": "", "unread": "", **left_out}
            made[0].restores("f").trains([1]).writes("restored", **said)
            return made.ends_well().history()

        (finding,) = ask("checkpoint", job(lacking=lacking, unread=unread), job())
        assert (finding.cause, finding.ranks, finding.step) == ("partial restore", (0,), 1)
        assert finding.sentence().endswith(f"with less of the checkpoint model than the control: {lacking or unread}")
        left_out = {"lacking": lacking, "unread": unread}
        assert all(found.cause != "partial restore" for found in ask("checkpoint", job(**left_out), job(**left_out)))

    def test_objects_to_a_run_without_a_save_where_the_control_made_one(self) -> None:
        assert objection("checkpoint", sound(), self.control()) == ("no checkpoint", (), 1)

    def test_counts_a_save_that_was_begun_and_not_finished_for_none(self) -> None:
        job = Golden().trains(1)
        job[0].enters("save", path="model.pt").reports("OSError", "No space left on device")
        job[1].loads([1]).reports("RuntimeError", "Connection closed by peer")
        assert objection("checkpoint", job.history(), self.control()) == ("no checkpoint", (), 1)

    def test_objects_to_a_restore_of_what_nobody_saved(self) -> None:
        job = with_checkpoints(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("half a file")
        (finding,) = ask("checkpoint", job.trains(2).ends_well().history(), self.control())
        assert (finding.cause, finding.ranks, finding.attempt) == ("torn checkpoint", (0,), 1)
        assert finding.sentence() == "the checkpoint model.pt, read by rank 0, is not as it was written"

    def test_leaves_weights_alone_that_the_control_restored_too(self) -> None:
        def starts_from_weights() -> History:
            job = Golden()
            job[0].restores("weights", "weights.pt")
            job.trains(1)
            job[0].saves()
            return job.ends_well().history()

        assert ask("checkpoint", starts_from_weights(), starts_from_weights()) == []

    def fails(self, *left: str, later: int = 0) -> History:
        """Return a job whose second save of three fails, or the last ones; the paths in `left` hold these files."""
        job = with_checkpoints(1).trains(1)
        job[0].fails_to_save()
        for _ in range(later):
            job.trains(1)[0].saves()
        job.ends_well()
        for number, file in enumerate(left):
            job.leaves(f"model-{number}.pt", file)
        return job.history()

    def whole(self) -> History:
        """Return the control, whose last checkpoint is left."""
        return with_checkpoints().ends_well().leaves("model.pt", "a0s3").history()

    def test_objects_to_a_save_that_failed_where_no_whole_checkpoint_is_left(self) -> None:
        (finding,) = ask("checkpoint", self.fails("half"), self.whole())
        assert (finding.cause, finding.ranks, finding.step) == ("no checkpoint", (0,), 2)
        assert "the save of rank 0 failed, and no file that is left holds a whole" in finding.sentence()

    def test_leaves_a_save_alone_that_failed_where_an_earlier_checkpoint_is_left(self) -> None:
        assert ask("checkpoint", self.fails("half", "a0s1"), self.whole()) == []

    def test_leaves_a_save_alone_that_failed_where_a_later_one_is_left(self) -> None:
        assert ask("checkpoint", self.fails("a0s3", later=1), self.whole()) == []

    def test_says_nothing_of_a_save_that_failed_where_the_controls_checkpoints_lie_elsewhere(self) -> None:
        assert ask("checkpoint", self.fails("half"), self.control()) == []

    def test_abstains_if_the_control_never_saved(self) -> None:
        with pytest.raises(Abstain, match="the control saved no checkpoint"):
            ask("checkpoint", sound(), sound())

    def test_abstains_if_the_run_ended_before_a_save_was_due(self) -> None:
        with pytest.raises(Abstain, match="ended before its first checkpoint"):
            ask("checkpoint", killed(step=1).history(), self.control())


class TestRace:
    def test_objects_to_unordered_accesses_with_both_places(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("w", None, lo=0, hi=8, site="train.py:3", tensor="float32 of 2")
        job[1].accesses("r", None, lo=4, hi=12, site="train.py:9")
        (finding,) = ask("race", job.ends_well().history())
        assert (finding.cause, finding.ranks, finding.step) == ("data race", (0, 1), 1)
        assert finding.places == ("train.py:3", "train.py:9")
        assert "bytes 4 to 8 of a tensor (float32 of 2)" in finding.sentence()

    def test_names_a_lost_update_with_its_four_accesses_where_a_schedule_says_their_order(self) -> None:
        job = Golden().trains(1)
        for turn, (rank, mode) in enumerate([(0, "r"), (1, "r"), (0, "w"), (1, "w")]):
            job[rank].accesses(mode, turn, lo=0, hi=4, site="train.py:3")
        (finding,) = ask("race", job.ends_well().history())
        assert finding.cause == "lost update"
        assert [e["turn"] for e in finding.evidence["events"]] == [0, 1, 2, 3]
        assert "rank 1 (train.py:3) overwrote the update of rank 0 (train.py:3)" in finding.sentence()

    def test_leaves_ordered_accesses_alone(self) -> None:
        job = Golden().trains(1)
        for one in job.ranks:
            one.writes("sync", do="acquire", key="shared:semaphore:/a").accesses("rw", None, lo=0, hi=4)
            one.writes("sync", do="release", key="shared:semaphore:/a")
        assert ask("race", job.ends_well().history()) == []

    def test_abstains_where_accesses_are_not_on_record(self) -> None:
        with pytest.raises(Abstain, match="no reads and writes"):
            ask("race", sound())


class TestWhatIsLeftOnDisk:
    def one_writer(self, left: str = "all") -> History:
        """Return a job whose rank 0 alone writes a file."""
        job = Golden().trains(3)
        job[0].opens("log").accesses("w", 0, "open", "log").closes("log", "all")
        return job.ends_well().leaves("log", left).history()

    def two_writers(self, left: str, other: str = "b") -> Golden:
        """Return a job of which both ranks write a whole file in their last step."""
        job = Golden().trains(3)
        for turn, (one, file) in enumerate(zip(job.ranks, ("a", other), strict=True)):
            one.opens("log").accesses("w", turn, "open", "log").closes("log", file)
        return job.ends_well().leaves("log", left)

    def test_objects_to_a_file_in_which_the_writes_of_two_ranks_are_mixed(self) -> None:
        (finding,) = ask("checkpoint", self.two_writers("neither").history(), self.one_writer())
        assert (finding.cause, finding.ranks, finding.step) == ("interleaved file", (0, 1), 3)
        assert [e["turn"] for e in finding.evidence["events"]] == [0, 1]
        assert "the writes of ranks 0 and 1 at step 3 are mixed" in finding.sentence()

    def test_objects_to_a_rank_that_wrote_over_what_another_had_written_in_the_same_step(self) -> None:
        (finding,) = ask("checkpoint", self.two_writers("b").history(), self.one_writer())
        assert (finding.cause, finding.ranks, finding.step) == ("lost write", (0, 1), 3)
        assert finding.sentence() == "log lacks what rank 0 wrote at step 3: rank 1 wrote over it"

    def test_leaves_ranks_alone_that_write_the_same(self) -> None:
        assert ask("checkpoint", self.two_writers("a", other="a").history(), self.one_writer()) == []

    def test_leaves_alone_what_the_control_does_too(self) -> None:
        assert ask("checkpoint", self.two_writers("b").history(), self.two_writers("a").history()) == []

    def test_objects_to_a_rank_that_wrote_back_what_it_had_read_before_another_wrote(self) -> None:
        job = Golden().trains(2)
        job[0].accesses("r", 0, "open", "log").accesses("w", 2, "rename", "log")
        job[1].accesses("r", 1, "open", "log").accesses("w", 3, "rename", "log")
        history = job.ends_well().leaves("log", "less").history()
        (finding,) = ask("checkpoint", history, self.one_writer())
        assert (finding.cause, finding.ranks, finding.step) == ("lost write", (0, 1), 2)
        assert finding.sentence().endswith("rank 1 wrote back what it had read before")

    def test_leaves_ranks_alone_that_read_and_write_one_after_the_other(self) -> None:
        job = Golden().trains(2)
        job[0].accesses("r", 0, "open", "log").accesses("w", 1, "rename", "log")
        job[1].accesses("r", 2, "open", "log").accesses("w", 3, "rename", "log")
        assert ask("checkpoint", job.ends_well().leaves("log", "other").history(), self.one_writer()) == []

    @pytest.mark.parametrize(("later", "objects"), [(0, True), (1, False)])
    def test_objects_to_a_rank_that_removed_what_another_had_just_written(self, later: int, objects: bool) -> None:
        job = Golden().trains(2)
        job[0].accesses("w", 0, "save", "log")
        job.trains(later)
        job[1].accesses("w", 1, "remove", "log")
        history = job.ends_well().leaves("another", "x").history()
        found = [(f.cause, f.ranks, f.step) for f in ask("checkpoint", history, self.one_writer())]
        assert found == ([("lost write", (0, 1), 2)] if objects else [])

    def test_says_nothing_of_a_file_whose_content_is_not_on_record(self) -> None:
        for unknown in (None, "nothing is closed"):
            job = Golden().trains(3)
            job[0].opens("log").closes("log", "a")
            job[1].opens("log")
            if unknown is None:
                job[1].closes("log", None)
            history = job.ends_well().leaves("log", "neither").history()
            assert ask("checkpoint", history, self.one_writer()) == []

    def test_says_nothing_of_a_save_that_was_cut_short(self) -> None:
        job = Golden().trains(1)
        job[0].saves("model.pt")
        job.trains(1)[0].enters("save", path="model.pt").dies(SIGKILL)
        job[1].reports("RuntimeError", "Connection closed by peer")
        history = job.leaves("model.pt", "half").history()
        assert ask("checkpoint", history, with_checkpoints().ends_well().history()) == []


Files = list[tuple[str, tuple[int, int] | None]]


@pytest.mark.parametrize(
    ("mine", "theirs", "cause"),
    [
        ([("write", (0, 10))], [("write", (10, 20))], ""),
        ([("write", (0, 11))], [("write", (10, 20))], "file race"),
        ([("write", (n, n + 9)) for n in (0, 9, 18)], [("read", (15, 16))], "file race"),
        ([("write", (0, 100)), ("write", (0, 10))], [("read", (50, 51))], "file race"),
        ([("write", (0, 10))], [("truncate", None)], "file race"),
        ([("append", None)], [("append", None)], "append race"),
        ([("append", None)], [("read", None)], "file race"),
        ([("map", None)], [("map", None)], ""),
        ([("map", None)], [("read", None)], "file race"),
    ],
)
def test_ranks_at_one_file_are_judged_by_its_bytes(mine: Files, theirs: Files, cause: str) -> None:
    job = Golden()
    for rank, done in enumerate((mine, theirs)):
        for op, touched in done:
            facts = {} if touched is None else {"bytes": touched}
            job[rank].accesses("r" if op == "read" else "w", None, op, "a.bin", **facts)
    assert [finding.cause for finding in ask("files", job.history())] == ([cause] if cause else [])
