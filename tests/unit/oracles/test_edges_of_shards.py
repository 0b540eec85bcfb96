"""Norms, losses and sums of ranks that hold shards of one model: which are wrong, and which may be meant."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.verdict import Finding

#: The names of two shards and a replica, and the squares of their gradients on two ranks, at each step.
NAMES = ["0.up.weight", "0.down.weight", "0.norm.weight"]
SQUARES = [([1.0, 2.0, 4.0], [3.0, 5.0, 4.0]), ([2.0, 3.0, 1.0], [4.0, 7.0, 1.0]), ([3.0, 1.0, 2.0], [1.0, 6.0, 2.0])]


def of(found: Any, cause: str) -> list[Finding]:
    return [one for one in found if one.cause == cause]


def begun(before: tuple[str, ...] = ("abr", "cdr"), gradients: tuple[str, ...] = ("uvw", "xyw")) -> Golden:
    """Return a job whose ranks have these digests of their parts, a letter each, and of the gradients of these."""
    job = Golden(len(before))
    for one, held, own in zip(job.ranks, before, gradients, strict=True):
        one.writes("names", names=NAMES, eps=1e-7)
        one.writes("inputs", before=list(held), gradients=list(own))
        one.writes("group", group="0", ranks=list(range(len(before))), backend="gloo", timeout_s=None)
    return job


def clipped(share: Any, beside: float = 0.0, by: Any = math.sqrt, most: float = 0.5, steps: int = 3) -> list[Finding]:
    """Return the findings on ranks that add up `share(rank, squares)`, and scale by `most` over the norm of that."""
    job = begun()
    for step, ranks in enumerate(SQUARES[:steps], 1):
        square = sum(share(rank, squares) for rank, squares in enumerate(ranks)) + beside * ranks[0][2]
        factor = min(1.0, most / by(square)) ** 2
        for one, squares in zip(job.ranks, ranks, strict=True):
            one.enters("forward").enters("backward").writes("squares", squares=squares)
            number = {"digest": "d", "n": 1, "sum": float(share(one.rank, squares))}
            one.enters("collective", c=step, reduce="SUM", shapes=[[]], site="train.py:9", **{"in": [number]})
            one.writes("squares", squares=[factor * value for value in squares], taken=True)
            one.enters("optimize").ends_step()
    return of(ask("optimizers", job.ends_well().history()), "norm miscounted")


def whole(rank: int, squares: list[float]) -> float:
    return sum(squares) if not rank else squares[0] + squares[1]


def test_a_shard_that_only_the_first_rank_counts_is_named() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares) if not rank else squares[0])
    assert (found.ranks, found.step, found.places) == ((0, 1), 1, ("train.py:9",))
    assert "it leaves out the shards of 0.down.weight of rank 1" in found.sentence()


def test_a_shard_that_no_rank_counts_is_named() -> None:
    (found,) = clipped(lambda rank, squares: squares[1] + (0 if rank else squares[2]))
    assert "it leaves out the shards of 0.up.weight of all ranks" in found.sentence()


def test_shards_that_are_left_out_beside_replicas_that_each_rank_adds_are_named() -> None:
    (found,) = clipped(lambda rank, squares: squares[0] + (0 if rank else squares[1]), beside=1.0)
    assert "it leaves out the shards of 0.down.weight of rank 1" in found.sentence()


def test_a_replica_that_each_rank_counts_is_named() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares))
    assert "it has 0.norm.weight, a replica, once for each rank" in found.sentence()


@pytest.mark.parametrize(("share", "more"), [
    (whole, {}),
    (lambda rank, squares: squares[0] + squares[1], {"beside": 1.0}),
    (lambda rank, squares: 0.7 * (1 + rank), {}),
    (lambda rank, squares: sum(squares), {"most": 100.0}),
    (lambda rank, squares: sum(squares), {"steps": 1}),
    (lambda rank, squares: sum(squares), {"by": lambda square: 5.0}),
])  # fmt: skip
def test_a_sum_that_is_right_or_of_something_else_or_does_not_clip_is_left_alone(share: Any, more: Any) -> None:
    assert clipped(share, **more) == []


def scored(
    *losses: tuple[float, ...],
    batches: tuple[str, ...] = ("b", "b"),
    reads: tuple[Any, ...] = (0.25, 0.75),
    call: dict[str, Any] | None = None,
    exchanges: bool = True,
    **begins: Any,
) -> list[Finding]:
    """Return the findings on ranks that exchange activations, and come to these losses of these batches."""
    job = begun(**begins)
    for step in range(1, 4):
        for one, own, batch, read in zip(job.ranks, losses, batches, reads, strict=True):
            one.enters("forward")
            if exchanges:
                held = {"digest": f"d{read}", "n": 16, "sum": 8 * read, "abs": 8 * read, "max": read, "min": 0.0}
                known = {"c": step, "reduce": "SUM", "shapes": [[16, 1]], "site": "train.py:5", "in": [held]}
                one.enters("collective", **{**known, **(call or {})})
            one.enters("backward").enters("optimize")
            one.writes("scored", loss=own[step - 1], samples=[16], batch=batch).ends_step(parts=["a", "b", "r"])
    return list(ask("optimizers", job.ends_well().history()))


ONE, OTHER = (2.5, 2.4, 2.3), (2.6, 2.4, 2.2)


def test_losses_of_ranks_with_shards_of_one_model_are_named() -> None:
    (found,) = of(scored(ONE, OTHER), "losses differ")
    assert (found.ranks, found.step) == ((0, 1), 1) and "2.5 on rank 0 and 2.6 on rank 1" in found.sentence()


@pytest.mark.parametrize(("losses", "more"), [
    ((ONE, ONE), {}),
    ((ONE, (2.6, 2.4, 2.3)), {}),
    ((ONE, (2.5, 2.6, 2.7)), {}),
    ((ONE, OTHER), {"before": ("abr", "cds")}),
    ((ONE, OTHER), {"batches": ("b", "c")}),
    ((ONE, OTHER), {"exchanges": False}),
    ((ONE, OTHER), {"before": ("abr", "abr")}),
    ((ONE, OTHER), {"gradients": ("uvw", "uvw")}),
    ((ONE, ONE, OTHER, OTHER), {
        "batches": tuple("bbcc"), "reads": (0.25, 0.75) * 2,
        "before": ("abr", "cdr") * 2, "gradients": ("uvw", "xyw") * 2}),
])  # fmt: skip
def test_losses_that_are_one_or_may_be_several_are_left_alone(losses: Any, more: Any) -> None:
    assert of(scored(*losses, **more), "losses differ") == []


def test_the_ranks_of_the_batch_whose_losses_differ_are_named_alone() -> None:
    four = {"before": ("abr", "cdr") * 2, "gradients": ("uvw", "xyw") * 2}
    (found,) = of(scored(ONE, ONE, ONE, OTHER, batches=tuple("bbcc"), reads=(0.25, 0.75) * 2, **four), "losses differ")
    assert found.ranks == (2, 3)


def test_what_all_ranks_have_alike_and_add_up_is_named() -> None:
    (found,) = of(scored(ONE, ONE, reads=(0.25, 0.25)), "replicas added up")
    assert (found.ranks, found.step, found.places) == ((0, 1), 1, ("train.py:5",))
    assert "all_reduce (train.py:5) adds up in the forward pass of step 1 what ranks 0 and 1 have" in found.sentence()


@pytest.mark.parametrize("more", [
    {"reads": (0.25, 0.75)},
    {"reads": (3.0, 3.0)},
    {"reads": (0.0, 0.0)},
    {"call": {"reduce": "MAX"}},
    {"call": {"shapes": [[64]]}},
    {"call": {"shapes": [[1]]}},
    {"call": {"dtype": "int64"}},
    {"call": {"in": []}},
    {"batches": ("b", "c")},
    {"before": ("abr", "abr")},
])  # fmt: skip
def test_sums_of_what_differs_or_of_statistics_are_left_alone(more: Any) -> None:
    assert of(scored(ONE, ONE, **{"reads": (0.25, 0.25), **more}), "replicas added up") == []
