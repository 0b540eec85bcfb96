"""Orders that come again, random numbers that are alike on ranks, and validations of too many samples or of others."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden, GoldenRank

from breakrank.analysis.draws import drawn_alike, drawn_wrong
from breakrank.analysis.padding import Padding, find_padding
from breakrank.history.reader import History


def train(one: GoldenRank, iterator: int, *batches: list[int], **first: Any) -> None:
    """Train on the batches of an iterator, one a step, whose gradients are reduced."""
    for number, indices in enumerate(batches):
        told = {"iterator": iterator, **first} if not number else {}
        one.enters("load").writes("payload", of="load", indices=indices, batch=str(indices), **told)
        one.enters("forward").enters("backward").enters("collective").enters("optimize").ends_step()


def validate(one: GoldenRank, iterator: int, *batches: list[int], ops: tuple[str, ...] = (), **first: Any) -> None:
    """Go through the batches of an iterator without training, and then through these collectives."""
    told = {"iterator": iterator, "begins": len(batches), "dataset": "d", "draws": "part", **first}
    for number, indices in enumerate(batches):
        one.enters("load").writes("payload", of="load", indices=indices, **(told if not number else {}))
    for op in ops:
        one.enters("collective", op=op)


def in_epochs(*orders: list[list[int]], **first: Any) -> list[Any]:
    """Return the findings on a rank that trains on these epochs."""
    job = Golden(1)
    for number, batches in enumerate(orders, 1):
        train(job[0], number, *batches, **first)
    return drawn_wrong(job.ends_well().history())


SAME = [[5, 3], [7, 1]]


def test_a_shuffle_that_gives_one_order_is_found_at_the_second_epoch() -> None:
    (found,) = in_epochs(SAME, SAME, SAME, shuffles=True)
    assert (found.cause, found.ranks, found.step) == ("shuffled once", (0,), 3)
    assert "in one order epoch after epoch, again at step 3" in found.sentence()


@pytest.mark.parametrize(("orders", "first"), [
    ([SAME, SAME], {"shuffles": True}),
    ([SAME, SAME, SAME], {}),
    ([SAME, [[7, 1], [5, 3]], SAME], {"shuffles": True}),
    ([[[5, 3]], [[5, 3]], [[5, 3]]], {"shuffles": True}),
])  # fmt: skip
def test_few_epochs_or_other_orders_or_none_that_is_drawn_are_left_alone(orders: Any, first: Any) -> None:
    assert in_epochs(*orders, **first) == []


def drawing(*states: dict[str, str], indices: Any = (1,), reduces: bool = True) -> History:
    """Return a job of ranks whose first worker found generators in these states."""
    job = Golden(len(states))
    for one, state in zip(job.ranks, states, strict=True):
        told = [10 * one.rank + number for number in indices] if indices else None
        one.enters("load").writes("payload", of="load", indices=told, samples=[str(one.rank)])
        one.enters("forward").enters("backward")
        if reduces:
            one.enters("collective")
        one.writes("worker", worker=0, of=2, random=state, moved=[])
        one.enters("optimize").ends_step()
    return job.ends_well().history()


def test_random_numbers_that_are_alike_on_ranks_are_found_beside_a_control_whose_are_not() -> None:
    alike, apart = drawing({"random": "a"}, {"random": "a"}), drawing({"random": "a"}, {"random": "b"})
    (found,) = ask("samples", alike, apart, steps=1)
    assert (found.cause, found.ranks, found.step) == ("alike on ranks", (0, 1), 1)
    assert "the same random numbers from random in their workers" in found.sentence()
    assert ask("samples", alike, alike, steps=1) == []
    assert ask("samples", apart, alike, steps=1) == []


@pytest.mark.parametrize("job", [
    drawing({"random": "a"}, {"numpy.random": "a"}),
    drawing({}, {}),
    drawing({"random": "a"}, {"random": "a"}, indices=()),
    drawing({"random": "a"}, {"random": "a"}, reduces=False),
    drawing({"random": "a"}),
])  # fmt: skip
def test_other_generators_a_stream_or_a_single_rank_are_left_alone(job: History) -> None:
    assert drawn_alike(job) == []


def padded(*shares: list[list[int]], ops: tuple[str, ...] = ("allreduce_",), **first: Any) -> list[Any]:
    """Return the findings on ranks that train, and validate on these shares."""
    job = Golden(len(shares))
    for one, batches in zip(job.ranks, shares, strict=True):
        train(one, 1, [100 + one.rank], dataset="d")
        validate(one, 2, *batches, ops=ops, **{"padded": True, **first})
        train(one, 3, [200 + one.rank], dataset="d")
    return drawn_wrong(job.ends_well().history())


def test_a_padded_validation_that_ranks_add_up_counts_samples_twice() -> None:
    (found,) = padded([[0, 2], [4, 6]], [[1, 3], [5, 0]])
    assert (found.cause, found.ranks, found.step) == ("counted twice", (0, 1), 2)
    assert "ranks 0 and 1 counted 1 of 7 samples twice in a validation" in found.sentence()


@pytest.mark.parametrize(("shares", "more"), [
    ([[[0, 2], [4, 6]], [[1, 3], [5, 7]]], {}),
    ([[[0, 2], [4, 6]], [[1, 3], [5, 0]]], {"ops": ("allgather_",)}),
    ([[[0, 2], [4, 6]], [[1, 3], [5, 0]]], {"ops": ("allreduce_", "allgather_")}),
    ([[[0, 2], [4, 6]], [[1, 3], [5, 0]]], {"ops": ("reduce_scatter_",)}),
    ([[[0, 2], [4, 6]], [[1, 3], [5, 0]]], {"ops": ("barrier",)}),
    ([[[0, 2], [4, 6]], [[1, 3], [5, 0]]], {"ops": ()}),
    ([[[0, 2], [4, 6]], [[1, 3], [5, 0]]], {"begins": 3}),
    ([[[0, 2], [4, 6]], [[0, 2], [4, 6]]], {}),
    ([[[0, 2], [4, 0]]], {}),
])  # fmt: skip
def test_a_validation_that_is_cut_off_or_exact_or_of_each_rank_is_left_alone(shares: Any, more: Any) -> None:
    assert padded(*shares, **more) == []


def shared_out(*validations: tuple[list[list[int]], ...], **first: Any) -> Padding | None:
    """Return what is found on ranks that go through validations of these shares in turn, and add each up."""
    job = Golden(max(map(len, validations)))
    for number, shares in enumerate(validations, 1):
        for one, batches in zip(job.ranks, shares, strict=False):
            told = {"padded": True, **(first if number == 1 else {})}
            validate(one, 2 * number, *([sample] for sample in batches), ops=("allreduce_",), **told)
            train(one, 2 * number + 1, [100 * number + one.rank], dataset="d")
    return find_padding(job.ends_well().history().last)


PADDED = ([0, 2, 4], [1, 3, 0])


def test_of_several_validations_the_first_that_is_padded_is_told() -> None:
    assert shared_out(PADDED, ([7, 8], [9, 7])) == Padding(1, 5, (0, 1), 1)
    assert shared_out(([0, 2], [1, 3]), PADDED) == Padding(1, 5, (0, 1), 2)


def test_a_validation_that_was_broken_off_or_says_no_index_hides_none_behind_it() -> None:
    assert shared_out(PADDED, PADDED, begins=9) == Padding(1, 5, (0, 1), 2)
    assert shared_out(PADDED, PADDED, dataset="") == Padding(1, 5, (0, 1), 2)


def test_ranks_that_validate_more_often_than_others_are_compared_as_far_as_all_go() -> None:
    assert shared_out(PADDED, ([7, 8],)) == Padding(1, 5, (0, 1), 1)
    assert shared_out(([0, 2], [1, 3]), ([7, 8],)) is None


@pytest.mark.parametrize("ops", [("barrier", "allreduce_"), ("allreduce_", "reduce_")])
def test_ranks_that_meet_beside_their_sums_add_up_all_that_was_drawn(ops: tuple[str, ...]) -> None:
    (found,) = padded([[0, 2], [4, 6]], [[1, 3], [5, 0]], ops=ops)
    assert found.cause == "counted twice"


def test_the_step_is_that_of_the_first_rank_and_a_collective_without_a_name_is_none() -> None:
    job = Golden(2)
    train(job[1], 1, [101], dataset="d")
    for one, batches in zip(job.ranks, PADDED, strict=True):
        validate(one, 2, *([sample] for sample in batches), ops=("allreduce_",), padded=True)
        one.enters("collective", op="")
        train(one, 3, [200 + one.rank], dataset="d")
    assert find_padding(job.ends_well().history().last) == Padding(1, 5, (0, 1), 1)


def test_as_many_samples_as_ranks_are_no_padding() -> None:
    assert shared_out(([0, 2, 4], [1, 0, 2])) is None
    assert shared_out(([0, 2], [1, 0], [3, 0])) == Padding(2, 4, (0, 1, 2), 1)
    assert shared_out(([0, 0],)) is None


def test_a_split_that_is_another_one_in_each_epoch_shows_at_the_first_validation() -> None:
    job = Golden(1)
    for number, (trained, asked) in enumerate([([0, 1, 2], [2, 3]), ([3, 2, 1], [0, 1]), ([0, 1, 3], [2, 3])]):
        train(job[0], 2 * number + 1, *([i] for i in trained), dataset="d", draws="part", begins=3)
        validate(job[0], 2 * number + 2, *([i] for i in asked))
    (found,) = drawn_wrong(job.ends_well().history())
    assert (found.cause, found.step, found.evidence["count"], found.evidence["of"]) == (
        "validated on training",
        4,
        1,
        2,
    )


def validated(*rounds: list[list[int]], again: bool = False) -> History:
    """Return a job of two ranks that train, and validate on these batches in turn."""
    job = Golden(2)
    for one in job.ranks:
        train(one, 1, [100 + one.rank], dataset="d")
        for number, batches in enumerate(rounds):
            validate(one, 2 + number, *([10 * one.rank + i for i in batch] for batch in batches))
    return (job.again() if again else job).ends_well().history()


@pytest.mark.parametrize(("here", "said"), [
    ([[0], [1]], "2 left out"),
    ([[0, 1], [2, 2]], "2 too often"),
    ([[0, 1], [2, 5]], "2 that the control has not"),
    ([[0, 1], [1, 5]], "2 left out, 2 too often, 2 that the control has not"),
])  # fmt: skip
def test_a_validation_on_other_samples_than_the_controls_says_which(here: Any, said: str) -> None:
    (found,) = ask("samples", validated(here), validated([[0, 1], [2]]), steps=1)
    assert (found.cause, found.ranks, found.step) == ("validated otherwise", (0, 1), 2)
    assert found.sentence().endswith(said)


def test_what_is_validated_is_not_trained_on() -> None:
    assert ask("samples", validated([[0, 1], [2]]), validated([[2, 0], [1]]), steps=1) == []
    assert ask("samples", validated([[0, 1], [2]]), validated([[0, 1], [2]], [[0, 5], [2]]), steps=1) == []
