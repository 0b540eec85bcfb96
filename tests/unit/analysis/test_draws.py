"""Batches that are drawn as no training wants them."""

from __future__ import annotations

from typing import Any

import pytest
from support.golden import Golden

from breakrank.analysis.draws import drawn_wrong


def trained(
    *ranks: list[dict[str, Any]], names: dict[str, Any] | None = None, inputs: Any = (), reduces: bool = True
) -> list[Any]:
    """Return the findings on a job whose ranks train on these loads, one a step."""
    job = Golden(len(ranks))
    for one, loads in zip(job.ranks, ranks, strict=True):
        for load in loads:
            one.enters("load").writes("payload", of="load", **{"indices": [1], **load})
            one.enters("forward").enters("backward")
            if reduces:
                one.enters("collective")
            one.enters("optimize").ends_step()
        if names:
            one.writes("names", names=["a"], eps=1e-7, **names)
        if inputs:
            one.writes("inputs", before=[inputs[one.rank]], gradients=[inputs[one.rank]])
    return drawn_wrong(job.ends_well().history())


def epochs(*told: int, indices: Any = None, begins: int = 2) -> list[dict[str, Any]]:
    """Return the loads of epochs of two batches, of which the sampler was told these numbers."""
    loads = []
    for number, epoch in enumerate(told):
        first = indices[number] if indices else [5, 3]
        loads += [{"begins": begins, "epoch": epoch, "indices": first}, {"indices": [7, number]}]
    return loads


def test_a_sampler_that_is_told_of_no_epoch_is_found_at_the_second_one() -> None:
    (found,) = trained(epochs(0, 0, 0))
    assert (found.cause, found.ranks, found.step) == ("one order", (0,), 3)


@pytest.mark.parametrize("loads", [
    epochs(0, 0),
    epochs(0, 1, 2),
    epochs(0, 0, 0, indices=[[5, 3], [3, 5], [5, 3]]),
    epochs(0, 0, 0, begins=1),
])  # fmt: skip
def test_epochs_are_left_alone_that_differ_are_few_or_have_one_batch(loads: Any) -> None:
    assert trained(loads) == []


def batch(*digests: str) -> list[dict[str, Any]]:
    return [{"batch": digest, "indices": [number]} for number, digest in enumerate(digests)]


def test_ranks_that_train_on_the_same_batches_share_nothing_out() -> None:
    (found,) = trained(batch(*"abcd"), batch(*"abcd"))
    assert (found.cause, found.ranks, found.step, found.evidence["steps"]) == ("one batch on all", (0, 1), 1, 4)


@pytest.mark.parametrize(("one", "other", "more"), [
    ("abcd", "abce", {}),
    ("abc", "abc", {}),
    ("aaaa", "aaaa", {}),
    ("abcd", "abcd", {"names": {"sharded": [0]}}),
    ("abcd", "", {}),
    ("abcd", "abcd", {"reduces": False}),
])  # fmt: skip
def test_it_takes_equal_batches_that_differ_from_step_to_step(one: str, other: str, more: Any) -> None:
    assert trained(batch(*one), batch(*other), **more) == []


def test_ranks_that_hold_shards_of_a_model_share_their_batches() -> None:
    job = [batch(*"abcd"), batch(*"abcd"), batch(*"abcd"), batch(*"abcd")]
    assert trained(*job, inputs="xyxy") == []
    assert [found.cause for found in trained(*job, inputs="xxxx")] == ["one batch on all"]


def test_batches_that_nobody_trained_on_do_not_count() -> None:
    job = Golden(2)
    for one in job.ranks:
        for number in range(6):
            one.enters("load").writes("payload", of="load", indices=[number], batch=str(number)).enters("forward")
            one.ends_step()
    assert drawn_wrong(job.ends_well().history()) == []


def stream(*batches: str, workers: int = 2) -> list[dict[str, Any]]:
    """Return the loads of a stream, with a letter for each sample."""
    loads: list[dict[str, Any]] = [{"indices": None, "samples": list(letters)} for letters in batches]
    loads[0]["workers"] = workers
    return loads


def test_samples_that_come_once_per_worker_are_found_at_the_first_that_comes_again() -> None:
    (found,) = trained(stream("abcd", "abcd", "efgh", "efgh"))
    assert (found.cause, found.step, found.evidence["workers"]) == ("once per worker", 2, 2)


@pytest.mark.parametrize("loads", [
    stream("abcd", "efgh", "ijkl", "mnop"),
    stream("abcd", "abcd"),
    stream("abcd", "abcd", "efgh", "efgh", workers=1),
    stream("abcd", "abcd", "efgh", "ijkl"),
    [*stream("abcd", "efgh"), *stream("abcd", "efgh")],
])  # fmt: skip
def test_a_stream_whose_workers_share_it_or_that_is_read_again_is_left_alone(loads: Any) -> None:
    assert trained(loads) == []
