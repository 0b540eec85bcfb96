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


def shard(*batches: list[int], **first: Any) -> list[dict[str, Any]]:
    """Return the loads of an epoch over a dataset of eight samples."""
    begins = {"begins": len(batches), "iterator": 1, "dataset": "d", "total": 8, **first}
    return [{"indices": indices, **(begins if not number else {})} for number, indices in enumerate(batches)]


def causes(found: list[Any]) -> list[tuple[str, tuple[int, ...], int]]:
    return [(one.cause, one.ranks, one.step) for one in found]


def test_samples_that_several_ranks_draw_in_an_epoch_are_found() -> None:
    found = trained(shard([0, 1], [2, 3]), shard([3, 4], [5, 6]))
    assert causes(found) == [("overlapping shards", (0, 1), 1)]
    assert "drew 1 of 7 samples on several ranks within one epoch" in found[0].sentence()


def test_only_the_ranks_that_have_them_are_named() -> None:
    found = trained(shard([0, 1]), shard([2, 1]), shard([3, 4]))
    assert causes(found) == [("overlapping shards", (0, 1), 1)]


@pytest.mark.parametrize("ranks", [
    (shard([0, 1], [2, 3]), shard([4, 5], [6, 7])),
    (shard([0, 1], [2, 3], padded=True), shard([4, 5], [6, 0], padded=True)),
    (shard([0, 1], [2, 3], draws="replacement"), shard([3, 3], [0, 6])),
    (shard([0, 1], [1, 3]), shard([4, 1], [6, 7])),
    (shard([0, 1], [2, 3]), shard([0, 1], [2, 3], dataset="e")),
    (shard([0, 1], [2, 3], dataset=""), shard([0, 1], [2, 3], dataset="")),
])  # fmt: skip
def test_shards_that_are_apart_filled_up_or_of_other_data_are_left_alone(ranks: Any) -> None:
    assert trained(*ranks) == []


def test_a_sample_that_may_have_been_added_is_left_alone_and_two_are_not() -> None:
    filled = [shard([0, 1], [2, 3], [4, 5], padded=True), shard([0, 6], [7, 3], [2, 1], padded=True)]
    assert causes(trained(*filled)) == [("overlapping shards", (0, 1), 1)]
    assert trained(filled[0], shard([0, 6], [7, 8], [2, 1], padded=True)) == []


def test_samples_are_told_apart_by_what_they_hold() -> None:
    def held(*contents: str) -> list[dict[str, Any]]:
        return [{"iterator": 1, "indices": [0, 1], "contents": [*one]} for one in contents]

    assert causes(trained(held("ab", "cd"), held("ae", "fg"))) == [("overlapping shards", (0, 1), 1)]
    assert trained(held("ab", "cd"), held("hi", "fg")) == []
    # A dataset may hold a few samples twice.
    many = ["".join(chr(200 + 10 * n + i) for i in range(10)) for n in range(6)]
    assert trained(held("ab", *many[:3]), held("ac", *many[3:])) == []


def test_samples_that_no_rank_draws_are_found() -> None:
    found = trained(shard([0], [1]), shard([2], [3]))
    assert causes(found) == [("samples never drawn", (0, 1), 1)]
    assert "4 of 8 samples were drawn by no rank in 1 whole epochs" in found[0].sentence()


@pytest.mark.parametrize("ranks", [
    (shard([0, 1], [2]), shard([4, 5], [6])),
    (shard([0], [1], begins=3), shard([2], [3], begins=3)),
    (shard([0], [1], draws="part"), shard([2], [3], draws="part")),
    (shard([0], [1], dataset=""), shard([2], [3], dataset="")),
])  # fmt: skip
def test_epochs_that_drop_a_batch_are_broken_off_or_of_a_part_are_left_alone(ranks: Any) -> None:
    assert trained(*ranks) == []


def validated(
    *loads: tuple[str, int, list[int]], by: str = "indices", draws: str = "part", begins: int = 0
) -> list[Any]:
    """Return the findings on a rank that trains (`t`) or validates (`v`) on these, by iterator."""
    job = Golden(1)
    for mode, iterator, samples in loads:
        told: dict[str, Any] = {"samples": [*map(str, samples)]}
        if by == "indices":
            told = {"indices": samples, "dataset": "d", "draws": draws}
        if begins:
            told["begins"] = begins
        job[0].enters("load").writes("payload", of="load", iterator=iterator, **told)
        if mode == "t":
            job[0].enters("forward").enters("backward").enters("optimize").ends_step()
    return drawn_wrong(job.ends_well().history())


@pytest.mark.parametrize("by", ["indices", "samples"])
def test_samples_of_the_training_in_a_validation_are_found(by: str) -> None:
    loads = [("t", 1, [0, 1]), ("t", 1, [2, 3]), ("v", 2, [3, 4]), ("v", 2, [5, 6])]
    found = validated(*loads, by=by)
    assert causes(found) == [("validated on training", (0,), 3)]
    assert "on 1 samples, of 4, on which it had trained" in found[0].sentence()


def test_a_validation_on_samples_of_other_ranks_alone_is_a_mistake_of_all() -> None:
    job = Golden(2)
    for rank, (train, held) in enumerate([([0, 1], [2, 3]), ([2, 3], [0, 1])]):
        for iterator, samples in ((1, train), (1, train), (2, held), (2, held)):
            told: dict[str, Any] = {"indices": samples, "dataset": "d", "draws": "part", "begins": 9}
            job[rank].enters("load").writes("payload", of="load", iterator=iterator, **told)
            if iterator == 1:
                job[rank].enters("forward").enters("backward").enters("optimize").ends_step()
    found = drawn_wrong(job.ends_well().history())
    assert causes(found) == [("validated on training", (0, 1), 3)]
    assert "on 4 samples, of 4, on which ranks had trained" in found[0].sentence()


def test_an_epoch_that_was_broken_off_says_nothing_of_samples_that_it_did_not_come_to() -> None:
    loads = [("t", 1, [0, 1]), ("t", 1, [2, 3]), ("v", 2, [3, 4]), ("v", 2, [5, 6])]
    assert validated(*loads, begins=3) == []
    assert causes(validated(*loads, begins=2)) == [("validated on training", (0,), 3)]


def test_a_validation_on_the_whole_dataset_is_meant() -> None:
    assert validated(("t", 1, [0, 1]), ("v", 2, [1, 2]), ("v", 2, [3, 4]), draws="") == []


@pytest.mark.parametrize("loads", [
    [("t", 1, [0, 1]), ("v", 2, [2, 3]), ("v", 2, [4, 5])],
    [("t", 1, [0, 1]), ("v", 2, [0, 1]), ("v", 2, [1])],
    [("t", 1, [0, 1]), ("v", 2, [1, 2])],
    [("v", 2, [1, 2]), ("t", 1, [0, 1]), ("v", 2, [3, 4])],
])  # fmt: skip
def test_validations_on_other_samples_or_on_nothing_else_are_left_alone(loads: Any) -> None:
    assert validated(*loads) == []


def workers(*told: tuple[int, dict[str, str], list[str]]) -> list[Any]:
    """Return the findings on a rank whose workers have told this in one step."""
    job = Golden(1).trains(1)
    for worker, random, moved in told:
        job[0].writes("worker", worker=worker, of=2, random=random, moved=moved)
    return drawn_wrong(job.ends_well().history())


def test_workers_that_draw_alike_or_share_a_position_are_found() -> None:
    found = workers((0, {"numpy.random": "a"}, []), (1, {"numpy.random": "a"}, []))
    assert causes(found) == [("alike in workers", (0,), 1)]
    assert "draw the same random numbers from numpy.random" in found[0].sentence()
    found = workers((0, {}, ["x.bin"]), (1, {}, ["x.bin"]))
    assert causes(found) == [("shared file position", (0,), 1)] and "read x.bin from one" in found[0].sentence()


@pytest.mark.parametrize("told", [
    [(0, {"numpy.random": "a"}, []), (1, {"numpy.random": "b"}, [])],
    [(0, {"numpy.random": "a"}, []), (1, {"random": "a"}, [])],
    [(0, {"random": "a"}, []), (0, {"random": "a"}, [])],
    [(0, {}, ["x.bin"]), (1, {}, ["y.bin"])],
    [(0, {}, ["x.bin"]), (0, {}, ["x.bin"])],
])  # fmt: skip
def test_workers_that_do_otherwise_are_left_alone(told: Any) -> None:
    assert workers(*told) == []
