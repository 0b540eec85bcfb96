"""Models that are divided among ranks: norms of one rank, other groups, copies, other scales, other ranks' states."""

from __future__ import annotations

from collections.abc import Sequence
from signal import SIGKILL
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.verdict import Finding

NAMES = ["up", "norm"]


def of(found: Sequence[Finding], cause: str) -> list[Finding]:
    return [one for one in found if one.cause == cause]


def taken(
    *squares: Sequence[Sequence[float]], before: tuple[str, str] = ("ax", "bx"), sharded: Any = None
) -> list[Finding]:
    """Return the findings on norms, of two ranks whose optimizers took these squares of two parts at each step."""
    job = Golden()
    for one, begun, gradients in zip(job.ranks, before, ("uv", "wv"), strict=True):
        one.writes("names", names=NAMES, eps=1e-7, **({"sharded": sharded} if sharded else {}))
        one.writes("inputs", before=list(begun), gradients=list(gradients))
        for step in squares:
            one.enters("optimize").writes("squares", squares=step[one.rank], taken=True)
            one.ends_step(parts=["p", "q"])
    return of(ask("optimizers", job.ends_well().history()), "norm miscounted")


OWN = ([[0.05, 0.2], [0.15, 0.1]], [[0.24, 0.01], [0.2, 0.05]])


class TestNormOfOneRank:
    def test_ranks_that_each_scale_their_own_to_one_norm_are_named(self) -> None:
        (found,) = taken(*OWN)
        assert (found.ranks, found.step, found.places) == ((0, 1), 1, ())
        assert found.sentence().endswith("each scales its own to 0.5, by a norm without the shards of others")

    def test_shards_that_are_marked_need_no_replica_beside_them(self) -> None:
        assert len(taken(*OWN, before=("ab", "ab"), sharded=[0, 1])) == 1

    @pytest.mark.parametrize(("squares", "more"), [
        # Nothing is divided: replicas, and ranks that train apart from one start.
        (OWN, {"before": ("ax", "ax")}),
        # One step may be chance, and norms that differ are of a sum over ranks.
        (OWN[:1], {}),
        (([[0.05, 0.2], [0.1, 0.2]], [[0.2, 0.05], [0.1, 0.05]]), {}),
        # Two norms, in neither of which a second step ends.
        (([[0.05, 0.2], [0.15, 0.1]], [[0.5, 0.5], [0.25, 0.75]]), {}),
        # The shards weigh the same: they may be replicas.
        (([[0.05, 0.2], [0.05, 0.2]], [[0.2, 0.05], [0.2, 0.05]]), {}),
    ])  # fmt: skip
    def test_others_are_left_alone(self, squares: Any, more: Any) -> None:
        assert taken(*squares, **more) == []


def on_a_mesh(shards: Sequence[str], ends: Sequence[str], groups: Sequence[Sequence[int]] = ()) -> list[Finding]:
    """Return the findings on ranks with these shards of a part, and with these digests of it after a step.

    Each of `groups` is the ranks over which a rank reduces its gradient.
    """
    job = Golden(len(shards))
    for one, shard, end in zip(job.ranks, shards, ends, strict=True):
        one.writes("names", names=["up"], eps=1e-7, sharded=[0], shards=[shard], sizes=[6])
        if groups:
            one.writes("group", group=f"g{one.rank}", ranks=list(groups[one.rank]), backend="gloo", timeout_s=None)
        one.loads([one.rank]).enters("backward")
        if groups:
            one.enters("collective", c=1, group=f"g{one.rank}", site="train.py:9")
        one.enters("optimize").writes("inputs", before=[f"s{shard}"], gradients=[f"g{end}"])
        one.ends_step(end, parts=[end])
    return ask("replicas", job.ends_well().history(), ranks=len(shards))


class TestMeshes:
    def test_ranks_with_one_shard_are_replicas(self) -> None:
        (found,) = on_a_mesh(("0", "1", "0", "1"), ("a", "b", "c", "b"))
        assert (found.cause, found.ranks, found.step) == ("gradients differ", (0, 2), 1)
        assert on_a_mesh(("0", "1", "0", "1"), ("a", "b", "a", "b")) == []

    def test_a_gradient_that_is_reduced_over_ranks_with_other_shards_is_named(self) -> None:
        across = [(0, 1), (0, 1), (2, 3), (2, 3)]
        (found,) = on_a_mesh(("0", "1", "0", "1"), ("a", "b", "c", "d"), across)
        assert found.cause == "reduced over another group"
        assert found.sentence() == (
            "replicas part at step 1, in up first: all_reduce (train.py:9) reduced its gradient over ranks 0 and 1, "
            "and ranks 0 and 2 hold it"
        )

    def test_a_gradient_that_is_reduced_over_all_who_hold_it_has_another_reason(self) -> None:
        (found,) = on_a_mesh(("0", "1", "0", "1"), ("a", "b", "c", "d"), [(0, 1, 2, 3)] * 4)
        assert found.cause == "gradients differ"


def copied(sums: Sequence[float], shapes: Sequence[Sequence[int]], dtype: str = "float32") -> str:
    """Return why replicas part whose gradient sums up to 10, if a line reduces tensors of these sums and shapes."""
    job = Golden()
    for one in job.ranks:
        one.writes("names", names=["head"], eps=1e-7).loads([one.rank]).enters("backward")
        for number, (total, shape) in enumerate(zip(sums, shapes, strict=True), 1):
            told = {"digest": "d0", "n": 1, "sum": total, "abs": abs(total)}
            one.enters("collective", c=number, site="train.py:9", shapes=[shape], dtype=dtype, **{"in": [told]})
        one.enters("optimize").writes("inputs", before=["x"], gradients=[f"g{one.rank}"], totals=[[10.0, 10.0]])
        one.ends_step(f"p{one.rank}", parts=[f"p{one.rank}"])
    (found,) = ask("replicas", job.ends_well().history())
    return found.cause


class TestCopies:
    @pytest.mark.parametrize(("sums", "shapes", "dtype"), [
        ([10.0], [[8, 4]], "float32"),
        ([6.0, 4.0], [[6, 4], [2, 4]], "float32"),
        ([10.0, 3.0], [[8, 4], [5, 7]], "float32"),
        ([10.02], [[8, 4]], "bfloat16"),
    ])  # fmt: skip
    def test_a_copy_is_known_by_its_sums(self, sums: Any, shapes: Any, dtype: str) -> None:
        assert copied(sums, shapes, dtype) == "reduction dropped"

    @pytest.mark.parametrize(("sums", "dtype"), [([10.02], "float32"), ([-10.0], "float32"), ([6.0], "bfloat16")])
    def test_other_numbers_are_no_copy(self, sums: Any, dtype: str) -> None:
        assert copied(sums, [[8, 4]], dtype) == "gradients differ"


def scaled(factors: Sequence[float], control: Sequence[float], elements: int = 8) -> Finding:
    """Return the finding on ranks that multiply their losses by these factors, where the control's have others."""
    jobs = []
    for params, own, count in (("x", factors, elements), ("y", control, 8)):
        job = Golden()
        for one, factor in zip(job.ranks, own, strict=True):
            one.enters("backward").writes("loss", backward=1, factor=factor, reduction="sum", elements=count, bare=True)
            one.ends_step(params)
        jobs.append(job.ends_well().history())
    (found,) = ask("control", jobs[0], jobs[1])
    return found


class TestScales:
    def test_losses_that_the_control_scales_otherwise_are_named(self) -> None:
        found = scaled((0.5, 0.25), (0.4, 0.4))
        assert (found.cause, found.ranks, found.step) == ("loss scaled otherwise", (0, 1), 1)
        assert found.sentence().endswith("by 0.5 on rank 0 and 0.25 on rank 1, in the control by 0.4 on ranks 0 and 1")

    @pytest.mark.parametrize(("factors", "elements"), [((0.4, 0.4), 8), ((0.5, 0.25), 4)])
    def test_a_result_has_another_reason_where_they_are_alike_or_of_other_samples(
        self, factors: Any, elements: int
    ) -> None:
        assert scaled(factors, (0.4, 0.4), elements).cause == "wrong result"

    def test_without_a_wrapper_nothing_says_that_weights_have_to_be_equal(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.writes("inputs", before=["x"], gradients=["g"])
            one.writes("loss", backward=1, factor=1.0 + one.rank, reduction="sum", elements=8, bare=True)
        job.trains(6)
        assert of(ask("optimizers", job.ends_well().history()), "loss scale differs") == []


def resumed(*reads: tuple[tuple[str, str], ...], steps: int = 1) -> list[Finding]:
    """Return the findings on two ranks that saved own0 and own1, and later read these (path, content) each."""
    jobs = []
    for restarts in (True, False):
        job = Golden().trains(1)
        for one in job.ranks:
            one.saves(f"shard-{one.rank}", file=f"own{one.rank}")
        if restarts:
            for one in job.ranks:
                one.dies(SIGKILL)
            job.again()
            for one, files in zip(job.ranks, reads, strict=True):
                for path, content in files:
                    one.restores(content, path)
            job.trains(steps)
        jobs.append(job.ends_well().history())
    return of(ask("checkpoint", jobs[0], jobs[1]), "state of another")


class TestStatesOfOthers:
    def test_a_file_that_holds_what_another_rank_saved_is_named(self) -> None:
        (found,) = resumed((("shard-0", "own1"),), (("shard-1", "own0"),))
        assert (found.ranks, found.step, found.attempt) == ((0, 1), 0, 1)
        assert found.sentence().endswith("shard-0 holds what rank 1 had saved as shard-1")

    @pytest.mark.parametrize("reads", [
        ((("shard-0", "own0"),), (("shard-1", "own1"),)),
        # A rank may read all, to find its own, or what others have saved on purpose.
        ((("shard-0", "own1"), ("shard-1", "own0")), (("shard-0", "own1"), ("shard-1", "own0"))),
        ((("shard-1", "own1"),), (("shard-0", "own0"),)),
        ((("shard-0", "other"),), (("shard-1", "own1"),)),
    ])  # fmt: skip
    def test_others_are_left_alone(self, reads: Any) -> None:
        assert resumed(*reads) == []

    def test_a_rank_that_takes_no_step_has_not_gone_on(self) -> None:
        assert resumed((("shard-0", "own1"),), (("shard-1", "own0"),), steps=0) == []


class TestFewerRanks:
    def share(self, *samples: int) -> list[Finding]:
        """Return the findings on rank 0, which goes on alone with these samples, where the control's has 2 and 4."""
        job, control = Golden(), Golden()
        for one in control.ranks:
            for number in range(3):
                one.trains([2 * number + one.rank])
        for one in job.ranks:
            one.trains([one.rank]).saves()
        job[1].dies(SIGKILL)
        job[0].reports("RuntimeError")
        job.again()
        job._all.pop((1, 1), None)
        alone = job[0].restores("a0s1")
        for sample in samples:
            alone.trains([sample])
        alone.ends()
        found = ask("samples", job.history(), control.ends_well().history())
        return of(found, "share of the old world")

    def test_a_rank_that_keeps_its_share_is_named(self) -> None:
        (found,) = self.share(2, 4)
        assert (found.ranks, found.attempt, found.step) == ((0,), 1, 1)
        assert "although the ranks are 1 now in place of 2: nobody took the 2 samples" in found.sentence()

    def test_a_rank_that_takes_over_others_samples_is_left_alone(self) -> None:
        assert self.share(2, 3) == []
