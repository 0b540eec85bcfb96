"""Norms, losses and sums of ranks that hold shards of one model: which are wrong, and which may be meant."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden, GoldenRank

from breakrank.verdict import Finding

#: The names of two shards and a replica, and the squares of their gradients on two ranks, at each step.
NAMES = ["0.up.weight", "0.down.weight", "0.norm.weight"]
SQUARES = [([1.0, 2.0, 4.0], [3.0, 5.0, 4.0]), ([2.0, 3.0, 1.0], [4.0, 7.0, 1.0]), ([3.0, 1.0, 2.0], [1.0, 6.0, 2.0])]


def of(found: Any, cause: str) -> list[Finding]:
    return [one for one in found if one.cause == cause]


#: Two replicas beside a shard, and ranks that hold nothing but replicas.
WIDE = [([1.0, 2.0, 4.0], [3.0, 2.0, 4.0]), ([2.0, 3.0, 1.0], [4.0, 3.0, 1.0]), ([3.0, 1.0, 2.0], [1.0, 1.0, 2.0])]
ALIKE = [(own, own) for own, _ in SQUARES]
#: The same shards in each of two layers.
LAYERS = ["0.up.weight", "1.up.weight", "0.norm.weight"]


def begun(
    before: tuple[str, ...] = ("abr", "cdr"), gradients: tuple[str, ...] = ("uvw", "xyw"), names: Any = NAMES
) -> Golden:
    """Return a job whose ranks have these digests of their parts, a letter each, and of the gradients of these."""
    job = Golden(len(before))
    for one, held, own in zip(job.ranks, before, gradients, strict=True):
        one.writes("names", names=names, eps=1e-7)
        one.writes("inputs", before=list(held), gradients=list(own))
        one.writes("group", group="0", ranks=list(range(len(before))), backend="gloo", timeout_s=None)
    return job


def calls(one: GoldenRank, **call: Any) -> None:
    """Let a rank call a collective of these facts, without those that are None."""
    usual = {"point": "collective", "visit": 1, "op": "allreduce_", "group": "0", "dtype": "float32", "reduce": "SUM"}
    one.writes("point", **{name: value for name, value in {**usual, **call}.items() if value is not None})


def clipped(
    share: Any,
    beside: float = 0.0,
    by: Any = math.sqrt,
    most: float = 0.5,
    squares: Any = SQUARES,
    call: dict[str, Any] | None = None,
    between: str = "",
    unlike: float = 0.0,
    again: Any = None,
    **begins: Any,
) -> list[Finding]:
    """Return the findings on ranks that add up `share(rank, squares)`, and scale by `most` over the norm of that.

    `again` is a second sum at each step, `between` a point before the first, and `unlike` the relative difference of
    the scale of each rank to the one before.
    """
    job = begun(**begins)
    for step, ranks in enumerate(squares, 1):
        square = sum(share(rank, own) for rank, own in enumerate(ranks)) + beside * ranks[0][2]
        factor = min(1.0, most / by(square))
        for one, own in zip(job.ranks, ranks, strict=False):
            one.enters("forward").enters("backward")
            for number, summed in enumerate(filter(None, (share, again))):
                one.writes("squares", squares=own)
                if between:
                    one.enters(between)
                told = {"digest": "d", "n": 1, "sum": float(summed(one.rank, own))}
                known = {"c": 2 * step + number, "shapes": [[]], "site": "train.py:9", "in": [told]}
                calls(one, **{**known, **(call or {})})
            taken = (factor * (1 + one.rank * unlike)) ** 2
            one.writes("squares", squares=[taken * value for value in own], taken=True)
            one.enters("optimize").ends_step()
    return of(ask("optimizers", job.ends_well().history()), "norm miscounted")


def whole(rank: int, squares: list[float]) -> float:
    return sum(squares) if not rank else squares[0] + squares[1]


def test_a_shard_that_only_the_first_rank_counts_is_named() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares) if not rank else squares[0])
    assert (found.ranks, found.step, found.places) == ((0, 1), 1, ("train.py:9",))
    assert found.sentence() == (
        "ranks 0 and 1 clip their gradients by a wrong norm from step 1 on (train.py:9): "
        "it leaves out the shards of 0.down.weight of rank 1"
    )


def test_a_shard_that_no_rank_counts_is_named() -> None:
    (found,) = clipped(lambda rank, squares: squares[1] + (0 if rank else squares[2]))
    assert "it leaves out the shards of 0.up.weight of all ranks" in found.sentence()


def test_shards_that_are_left_out_beside_replicas_that_each_rank_adds_are_named() -> None:
    (found,) = clipped(lambda rank, squares: squares[0] + (0 if rank else squares[1]), beside=1.0)
    assert "it leaves out the shards of 0.down.weight of rank 1" in found.sentence()


def test_a_replica_that_each_rank_counts_is_named() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares))
    assert "it has 0.norm.weight, a replica, once for each rank" in found.sentence()


def test_a_point_between_the_gradients_and_the_sum_of_their_squares_changes_nothing() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares), between="save")
    assert "it has 0.norm.weight" in found.sentence()


def test_a_sum_that_is_rounded_is_told_from_the_right_one_all_the_same() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares) * (1 + 1e-6))
    assert "it has 0.norm.weight" in found.sentence()


def test_shards_of_one_kind_in_several_layers_are_told_by_the_first_and_their_number() -> None:
    share = [([1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 7.0, 8.0]), ([2.0, 3.0, 1.0, 5.0], [4.0, 7.0, 2.0, 5.0])]
    for names in (["0.up.w", "1.up.w", "0.down.w", "norm"], ["0.up.w", "1.up.b", "0.down.w", "norm"]):
        (found,) = clipped(
            lambda rank, squares: squares[2] + (0 if rank else squares[3]),
            **{"squares": share, "names": names, "before": ("abcr", "defr"), "gradients": ("uvwx", "yzwx")},
        )
        assert found.sentence().endswith("it leaves out the shards of 0.up.w and 1 more of all ranks")


@pytest.mark.parametrize("names", [[], ["up"]])
def test_parts_without_a_name_are_told_by_their_number(names: list[str]) -> None:
    (found,) = clipped(lambda rank, squares: sum(squares) if not rank else squares[0], names=names)
    assert found.sentence().endswith("it leaves out the shards of parameter 1 of rank 1")


def test_a_norm_that_no_line_of_the_program_adds_up_is_named_without_one() -> None:
    (found,) = clipped(lambda rank, squares: sum(squares), call={"site": None})
    assert found.places == () and "from step 1 on: it has 0.norm.weight" in found.sentence()


@pytest.mark.parametrize(("share", "more"), [
    (whole, {}),
    (lambda rank, squares: squares[0] + squares[1], {"beside": 1.0}),
    (lambda rank, squares: 0.7 * (1 + rank), {}),
    (lambda rank, squares: sum(squares), {"most": 100.0}),
    (lambda rank, squares: sum(squares), {"squares": SQUARES[:1]}),
    (lambda rank, squares: sum(squares), {"by": lambda square: 5.0}),
    (lambda rank, squares: sum(squares), {"by": lambda square: math.sqrt(square) * (1.01 if square > 18.5 else 1)}),
    (lambda rank, squares: sum(squares), {
        "by": lambda square: math.sqrt(square) * (1.01 if square > 18.5 else 1), "most": 0.005}),
    # The right norm is added up at the same step, as far as numbers of few digits have it.
    (lambda rank, squares: sum(squares), {"again": lambda rank, squares: whole(rank, squares) * (1 + 5e-6)}),
    # The sum is the same part of the right norm at each step: nothing tells by which of the two they clip.
    (lambda rank, squares: sum(squares), {"squares": [tuple([4.0 ** n * v for v in own] for own in SQUARES[0])
        for n in range(3)]}),
    # Gradients that are not scaled, of which the sum is always the same.
    (lambda rank, squares: squares[0], {"squares": [([1.0, v, 0.0], [3.0, 2 * v, 0.0]) for v in (1.1, 2.3, 3.7)],
        "most": 100.0}),
    (lambda rank, squares: sum(squares), {"unlike": 0.1}),
    (lambda rank, squares: sum(squares), {"unlike": 2e-5, "most": 0.1}),
    (lambda rank, squares: squares[0] + squares[2], {"squares": [(own, [0.0] * 3) for own, _ in SQUARES]}),
    # The first rank adds a shard and one of two replicas: that is no sum without the replicas, with one twice.
    (lambda rank, squares: squares[0] + (0 if rank else squares[1]), {
        "squares": WIDE, "by": lambda square: math.sqrt({6.0: 12.0, 9.0: 13.0, 5.0: 8.0}[square])}),
    # Nothing is divided: anyone may divide afterwards.
    (lambda rank, squares: sum(squares), {"squares": ALIKE}),
    (lambda rank, squares: squares[2] if rank else sum(squares), {"squares": ALIKE}),
    (lambda rank, squares: squares[0] + squares[2], {"squares": [ranks[:1] for ranks in SQUARES],
        "before": ("abr",), "gradients": ("uvw",)}),
    (lambda rank, squares: sum(squares), {"squares": [ranks[:1] for ranks in SQUARES]}),
    (lambda rank, squares: sum(squares), {"squares": [(one, other[:2]) for one, other in SQUARES]}),
    (lambda rank, squares: sum(squares), {"call": {"in": None}}),
    (lambda rank, squares: sum(squares), {"call": {"in": []}}),
    (lambda rank, squares: sum(squares), {"call": {"reduce": "MAX"}}),
    (lambda rank, squares: sum(squares), {"call": {"c": None}}),
    (lambda rank, squares: sum(squares), {"call": {"group": "7"}}),
])  # fmt: skip
def test_a_sum_that_is_right_or_of_something_else_or_does_not_clip_is_left_alone(share: Any, more: Any) -> None:
    assert clipped(share, **more) == []


def scored(
    *losses: tuple[float, ...],
    batches: tuple[str, ...] = ("b", "b"),
    reads: tuple[Any, ...] = (0.25, 0.75),
    call: dict[str, Any] | None = None,
    content: dict[str, Any] | None = None,
    exchanges: dict[int, str] | None = None,
    samples: tuple[int, ...] = (16,),
    lines: tuple[str, ...] = ("train.py:5",) * 4,
    **begins: Any,
) -> list[Finding]:
    """Return the findings on ranks that exchange activations, and come to these losses of these batches.

    `exchanges` has the steps at which they do, with the point after which; by default it is the forward pass of each.
    """
    job = begun(**begins)
    for step in range(1, 1 + len(losses[0])):
        for one, own, batch, read in zip(job.ranks, losses, batches, reads, strict=True):
            after = {step: "forward"} if exchanges is None else exchanges
            for point in ("load", "forward", "backward"):
                one.enters(point)
                if after.get(step) != point:
                    continue
                held = {"digest": f"d{read}", "n": 16, "sum": 8 * read, "abs": 8 * read, "max": read, "min": 0.0}
                held = {name: value for name, value in {**held, **(content or {})}.items() if value is not None}
                known = {"c": step, "shapes": [[16, 1]], "site": lines[one.rank], "in": [held]}
                calls(one, **{**known, **(call or {})})
            one.enters("optimize")
            one.writes("scored", loss=own[step - 1], samples=[*samples], batch=batch).ends_step(parts=["a", "b", "r"])
    return list(ask("optimizers", job.ends_well().history()))


ONE, OTHER = (2.5, 2.4, 2.3), (2.6, 2.4, 2.2)


def test_losses_of_ranks_with_shards_of_one_model_are_named() -> None:
    (found,) = of(scored(ONE, OTHER), "losses differ")
    assert (found.ranks, found.step) == ((0, 1), 1) and "2.5 on rank 0 and 2.6 on rank 1" in found.sentence()


@pytest.mark.parametrize(("losses", "more"), [
    ((ONE, ONE), {}),
    ((ONE, tuple(loss + 1e-5 for loss in ONE)), {}),
    ((ONE, (2.6, 2.4, 2.3)), {}),
    ((ONE, (2.5, 2.6, 2.7)), {}),
    ((ONE, OTHER), {"before": ("abr", "cds")}),
    ((ONE, OTHER), {"batches": ("b", "c")}),
    ((ONE, OTHER), {"exchanges": {}}),
    ((ONE, tuple(loss + 1 for loss in ONE)), {"exchanges": {1: "forward"}}),
    ((ONE, OTHER), {"exchanges": dict.fromkeys((1, 2, 3), "load")}),
    ((ONE, OTHER), {"exchanges": dict.fromkeys((1, 2, 3), "backward")}),
    ((ONE, OTHER) * 2, {
        "batches": ("b",) * 4, "reads": (0.25, 0.75) * 2,
        "before": ("abr", "cdr") * 2, "gradients": ("uvw", "xyw") * 2}),
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
    assert found.sentence() == (
        "all_reduce (train.py:5) adds up in the forward pass of step 1 what ranks 0 and 1 have alike, 16 numbers: "
        "the sum is a multiple of what each rank had"
    )


def test_a_sum_of_an_unknown_name_that_no_line_of_the_program_makes_is_named_by_it() -> None:
    (found,) = of(scored(ONE, ONE, reads=(0.25, 0.25), call={"op": "new_one_", "site": None}), "replicas added up")
    assert found.places == () and found.sentence().startswith("new_one_ (no line of its own) adds up in the forward")


@pytest.mark.parametrize("more", [
    {"samples": (8,), "call": {"shapes": [[8]]}},
    {"samples": (4, 4), "call": {"shapes": [[16, 1]]}},
    {"samples": (4, 5), "call": {"shapes": [[4, 5, 3]]}},
    {"lines": ("train.py:5", "train.py:6")},
])  # fmt: skip
def test_a_sum_with_numbers_for_each_sample_in_any_form_is_named_with_the_line_of_the_first_rank(more: Any) -> None:
    (found,) = of(scored(ONE[:2], ONE[:2], **{"reads": (0.25, 0.25), **more}), "replicas added up")
    assert found.places == ("train.py:5",)


def test_sums_of_several_groups_that_each_make_one_once_are_left_alone() -> None:
    job = begun(before=("abr", "cdr") * 2, gradients=("uvw", "xyw") * 2)
    for step, apart in ((1, 0), (2, 2)):
        for one in job.ranks:
            one.enters("forward")
            held = {
                "digest": "d" if one.rank in (apart, apart + 1) else f"d{one.rank}",
                "n": 16,
                "max": 0.25,
                "min": 0.0,
            }
            calls(one, c=step, shapes=[[16, 1]], **{"in": [held]})
            one.enters("backward").enters("optimize")
            one.writes("scored", loss=2.5, samples=[16], batch=f"b{one.rank // 2}").ends_step()
    assert of(ask("optimizers", job.ends_well().history()), "replicas added up") == []


@pytest.mark.parametrize("more", [
    {"reads": (0.25, 0.75)},
    {"reads": (3.0, 3.0)},
    {"reads": (0.0, 0.0)},
    {"call": {"reduce": "MAX"}},
    {"call": {"shapes": [[64]]}},
    {"call": {"shapes": [[1]]}},
    {"call": {"dtype": "int64"}},
    {"call": {"shapes": []}},
    {"call": {"shapes": None}},
    {"call": {"in": []}},
    {"call": {"in": None}},
    {"call": {"dtype": None}},
    {"content": {"of": 100}},
    {"content": {"max": None}},
    {"content": {"min": None}},
    {"batches": ("b", "c")},
    {"before": ("abr", "abr")},
])  # fmt: skip
def test_sums_of_what_differs_or_of_statistics_are_left_alone(more: Any) -> None:
    assert of(scored(ONE, ONE, **{"reads": (0.25, 0.25), **more}), "replicas added up") == []
