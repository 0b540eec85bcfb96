"""Happens-before on golden histories: each kind of synchronisation orders, nothing else does."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from support.golden import Golden, GoldenRank

from breakrank.analysis.byte_ranges import common, overlap
from breakrank.analysis.happens_before import accesses, by_storage, overwritten, unordered
from breakrank.analysis.moments import NodeClock
from breakrank.history.reader import RankHistory

BYTES = {"lo": 0, "hi": 4}


def reads(one: GoldenRank, **facts: Any) -> GoldenRank:
    return one.accesses("r", None, **{**BYTES, **facts})


def writes(one: GoldenRank, **facts: Any) -> GoldenRank:
    return one.accesses("w", None, **{**BYTES, **facts})


def syncs(one: GoldenRank, do: str, key: str, **facts: Any) -> GoldenRank:
    return one.writes("sync", do=do, key=key, **facts)


def racing(job: Golden) -> list[tuple[int, int]]:
    """Return the ranks of each pair that nothing orders."""
    return [(pair.one.rank, pair.other.rank) for pair in unordered(accesses(job.history().last))]


def behind(job: Golden, rank: int, seconds: float) -> list[RankHistory]:
    """Return the ranks, one of which has a clock that is behind, as it is where the offset of a node is wrong."""
    late = [
        replace(lived, events=tuple({**e, "t": e["t"] - seconds} for e in lived.events))
        if lived.rank == rank
        else lived
        for lived in job.history().last
    ]
    return late


def enters(one: GoldenRank, op: str, number: int, **facts: Any) -> GoldenRank:
    key = "p" if "peer" in facts else "c"
    return one.enters("collective", op=op, **{key: number}, **facts)


def leaves(one: GoldenRank, op: str, number: int, **facts: Any) -> GoldenRank:
    key = "p" if "peer" in facts else "c"
    return one.writes("done", op=op, group="0", **{key: number}, **facts)


def test_two_writes_with_nothing_between_them_race() -> None:
    job = Golden()
    writes(job[0])
    writes(job[1])
    assert racing(job) == [(0, 1)]


def test_two_reads_do_not_race() -> None:
    job = Golden()
    reads(job[0])
    reads(job[1])
    assert racing(job) == []


def test_what_one_rank_does_is_in_order() -> None:
    job = Golden()
    reads(writes(job[0]))
    assert racing(job) == []


@pytest.mark.parametrize(("key", "ordered"), [("shared:semaphore:/a", True), ("lock:1", False)])
def test_a_lock_orders_ranks_if_it_is_the_same_in_both(key: str, ordered: bool) -> None:
    job = Golden()
    syncs(writes(syncs(job[0], "acquire", key)), "release", key)
    syncs(writes(syncs(job[1], "acquire", key)), "release", key)
    assert racing(job) == ([] if ordered else [(0, 1)])


def test_two_different_locks_order_nothing() -> None:
    job = Golden()
    for rank, key in ((0, "shared:file:a"), (1, "shared:file:b")):
        syncs(writes(syncs(job[rank], "acquire", key)), "release", key)
    assert racing(job) == [(0, 1)]


def test_a_file_lock_that_was_given_up_by_closing_the_file_orders_who_takes_it_next() -> None:
    job = Golden()
    writes(syncs(job[0], "acquire", "shared:file:a"))
    writes(syncs(job[1], "acquire", "shared:file:a"))
    assert racing(job) == []


def test_what_was_done_after_a_release_is_not_before_the_next_holder() -> None:
    job = Golden()
    writes(syncs(syncs(job[0], "acquire", "shared:file:a"), "release", "shared:file:a"))
    writes(syncs(job[1], "acquire", "shared:file:a"))
    assert racing(job) == [(0, 1)]


def child(one: GoldenRank, name: str = "child-1") -> None:
    """Have a rank start a child, which writes after its start."""
    syncs(one, "release", f"shared:process:0:{name}")
    syncs(one, "acquire", f"shared:process:0:{name}", seq=name)
    writes(one, seq=name)


@pytest.mark.parametrize("joined", [True, False])
def test_a_child_comes_after_its_start_and_before_whoever_has_seen_it_end(joined: bool) -> None:
    job = Golden()
    child(writes(job[0]))
    if joined:
        syncs(job[0], "acquire", "shared:process:0:child-1", ended="child-1")
    reads(job[0])
    assert racing(job) == ([] if joined else [(0, 0)])


def test_who_has_seen_one_child_end_does_not_come_after_another() -> None:
    job = Golden()
    child(job[0], "child-1")
    syncs(job[0], "acquire", "shared:process:0:child-2", ended="child-2")
    reads(job[0])
    assert racing(job) == [(0, 0)]


@pytest.mark.parametrize(("key", "ordered"), [("shared:semaphore:/a", True), ("lock:1", False)])
def test_a_lock_orders_a_child_with_its_rank_if_it_is_not_a_copy(key: str, ordered: bool) -> None:
    job = Golden()
    for name in ("main", "child-1"):
        syncs(writes(syncs(job[0], "acquire", key, seq=name), seq=name), "release", key, seq=name)
    assert racing(job) == ([] if ordered else [(0, 0)])


def test_what_is_a_childs_alone_is_not_what_has_the_same_name_in_its_rank() -> None:
    job = Golden()
    for name in ("main", "child-1", "child-1/thread-1"):
        writes(job[0], key="@1", seq=name)
    touched = by_storage(accesses(job.history().last))
    assert {name: [a.thread.name for a in found] for name, found in touched.items()} == {
        "0@1": ["main"],
        "0/child-1@1": ["child-1", "child-1/thread-1"],
    }


@pytest.mark.parametrize(
    ("op", "root", "writer", "ordered"),
    [
        ("barrier", None, 0, True),
        ("allreduce_", None, 1, True),
        ("broadcast_", 0, 0, True),
        ("broadcast_", 0, 1, False),
        ("scatter_", 0, 1, False),
        ("gather_", 0, 0, False),
        ("reduce_", 0, 1, True),
    ],
)
def test_a_collective_orders_those_whose_part_it_brings(op: str, root: int | None, writer: int, ordered: bool) -> None:
    job = Golden()
    facts = {} if root is None else {"root": root}
    writes(job[writer])
    for one in job.ranks:
        enters(one, op, 1, **facts)
    for one in job.ranks:
        leaves(one, op, 1)
    reads(job[1 - writer])
    assert racing(job) == ([] if ordered else [(writer, 1 - writer)])


@pytest.mark.parametrize("sender", [0, 1])
def test_a_message_orders_who_sent_it_before_who_receives_it(sender: int) -> None:
    job = Golden()
    writes(job[0])
    enters(job[sender], "send", 1, peer=1 - sender, tag=0)
    enters(job[1 - sender], "recv_", 1, peer=sender, tag=0)
    leaves(job[sender], "send", 1, peer=1 - sender, tag=0)
    leaves(job[1 - sender], "recv_", 1, peer=sender, tag=0)
    reads(job[1])
    assert racing(job) == ([] if sender == 0 else [(0, 1)])


@pytest.mark.parametrize("waited", [False, True])
def test_what_a_work_reads_and_writes_is_touched_until_somebody_waits_for_it(waited: bool) -> None:
    job = Golden(ranks=1)
    one = job[0].accesses("rw", None, op="c10d::allreduce_", key="@1", **BYTES)
    enters(one, "allreduce_", 1, **{"async": True})
    if waited:
        leaves(one, "allreduce_", 1)
    writes(one, key="@1")
    assert racing(job) == ([] if waited else [(0, 0)])


def test_an_access_that_is_put_on_record_late_stands_where_it_was_made() -> None:
    """One thread made and wrote a tensor, then released a lock; the other took the lock, and only then read."""
    job = Golden(ranks=1)
    one = job[0]
    syncs(one, "release", "lock:1", seq="thread-1")
    syncs(one, "acquire", "lock:1")
    writes(one, key="@1", seq="thread-1", at=0)
    reads(one, key="@1")
    assert racing(job) == []
    writes(one, key="@1", seq="thread-1", at=1)
    reads(one, key="@1")
    assert racing(job) == [(0, 0)] * 2


def test_a_pick_that_left_nothing_on_record_does_not_move_what_is_put_there_late() -> None:
    """A thread gave something up and then wrote: what its record says of its picks is none of its syncs."""
    job = Golden(ranks=1)
    one = syncs(job[0], "release", "elsewhere")
    syncs(one, "yield", "")
    syncs(one, "release", "start of thread-1")
    syncs(one, "acquire", "start of thread-1", seq="thread-1")
    writes(one, key="@1", at=2)
    writes(one, key="@1", seq="thread-1")
    assert racing(job) == [(0, 0)]


def test_a_start_and_a_join_order_a_thread() -> None:
    job = Golden(ranks=1)
    one = writes(job[0], key="@1")
    syncs(one, "release", "start of thread-1")
    syncs(one, "acquire", "start of thread-1", seq="thread-1")
    writes(one, key="@1", seq="thread-1")
    syncs(one, "release", "end of thread-1", seq="thread-1")
    syncs(one, "acquire", "end of thread-1")
    writes(one, key="@1")
    assert racing(job) == []


def test_an_overwritten_update_is_shown_by_its_four_accesses() -> None:
    job = Golden()
    reads(job[0])
    reads(job[1])
    writes(job[0])
    writes(job[1])
    shown = overwritten(accesses(job.history().last))
    assert [(a.rank, a.event["mode"]) for a in shown] == [(0, "r"), (1, "r"), (0, "w"), (1, "w")]


def test_updates_one_after_the_other_are_not_overwritten() -> None:
    job = Golden()
    writes(reads(job[0]))
    writes(reads(job[1]))
    assert overwritten(accesses(job.history().last)) == []


def test_updates_of_other_bytes_are_not_overwritten() -> None:
    job = Golden()
    reads(job[0])
    reads(job[1], lo=4, hi=8)
    writes(job[0])
    writes(job[1], lo=4, hi=8)
    assert overwritten(accesses(job.history().last)) == []


def span(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[dict[str, Any], set[int]]:
    """Return the event's facts of a strided tensor of 4 bytes an element, and the bytes that it covers."""
    steps = itertools.product(*(range(size) for size in shape))
    starts = [start + sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in steps]
    covered = {first + byte for first in starts for byte in range(4)}
    return {"lo": min(covered), "hi": max(covered) + 1, "shape": shape, "strides": strides, "item": 4}, covered


def test_strided_tensors_overlap_exactly_where_they_have_a_byte_in_common() -> None:
    draw = random.Random(0)
    answers = set()
    for _ in range(3000):
        pair = []
        for _ in range(2):
            dimensions = draw.randint(1, 3)
            shape = tuple(draw.randint(1, 4) for _ in range(dimensions))
            strides = tuple(4 * draw.randint(0, 9) for _ in range(dimensions))
            pair.append(span(4 * draw.randint(0, 20), shape, strides))
        (one, here), (other, there) = pair
        answers.add(bool(here & there))
        assert overlap(one, other) == bool(here & there), (one, other)
    assert answers == {True, False}


def test_pieces_overlap_exactly_where_they_have_a_byte_in_common() -> None:
    draw = random.Random(0)
    answers = set()
    for _ in range(1000):
        edges = sorted(draw.sample(range(60), 2 * draw.randint(1, 6)))
        pieces = list(zip(edges[::2], edges[1::2], strict=True))
        one = {"lo": edges[0], "hi": edges[-1], "pieces": pieces}
        here = {byte for lo, hi in pieces for byte in range(lo, hi)}
        shape, strides = (draw.randint(1, 4),), (4 * draw.randint(1, 5),)
        other, there = span(4 * draw.randint(0, 10), shape, strides)
        answers.add(bool(here & there))
        assert overlap(one, other) == overlap(other, one) == bool(here & there), (one, other)
    assert answers == {True, False}


def test_of_two_accesses_by_index_the_first_bytes_in_common_are_named() -> None:
    one, other = {"pieces": [(0, 4), (8, 12), (20, 24)]}, {"pieces": [(4, 8), (10, 14), (22, 30)]}
    assert common({"lo": 0, "hi": 24, **one}, {"lo": 4, "hi": 30, **other}) == (10, 12)


def test_columns_of_a_large_matrix_are_told_apart() -> None:
    rows, columns = 100_000, 8
    one, other = ({"lo": 4 * c, "hi": 4 * (columns * (rows - 1) + c + 1)} for c in (1, 5))
    both = {"shape": (rows,), "strides": (4 * columns,), "item": 4}
    assert not overlap({**one, **both}, {**other, **both})
    assert overlap({**one, **both}, {**one, **both})


#: Two nodes whose clocks may be wrong by 10 ms and 20 ms: five or more events of a golden history.
NODES = {0: NodeClock("one", 0.01), 1: NodeClock("two", 0.02)}


def meet_on_two_nodes(kind: str) -> Golden:
    """Have rank 0 write, and rank 1 write after both have met."""
    job = Golden()
    writes(job[0])
    if kind == "collective":
        enters(job[1], "barrier", 1)
        enters(job[0], "barrier", 1)
        leaves(job[0], "barrier", 1)
        leaves(job[1], "barrier", 1)
    elif kind == "message":
        enters(job[1], "recv_", 1, peer=0)
        enters(job[0], "send", 1, peer=1)
        leaves(job[0], "send", 1, peer=1)
        leaves(job[1], "recv_", 1, peer=0)
    elif kind == "lock":
        syncs(job[0], "release", "shared:lock")
        syncs(job[1], "acquire", "shared:lock")
    writes(job[1])
    return job


@pytest.mark.parametrize("kind", ["collective", "message", "lock"])
def test_the_error_of_a_clock_makes_no_race_of_ranks_that_have_met(kind: str) -> None:
    late = behind(meet_on_two_nodes(kind), rank=1, seconds=0.025)
    # By the times alone, rank 1 wrote before rank 0 had come.
    assert list(unordered(accesses(late)))
    assert not list(unordered(accesses(late, NODES)))


def test_ranks_of_two_nodes_that_have_not_met_race_however_their_clocks_are() -> None:
    for seconds in (0.0, 0.025):
        late = behind(meet_on_two_nodes("nowhere"), rank=1, seconds=seconds)
        assert [{pair.one.rank, pair.other.rank} for pair in unordered(accesses(late, NODES))] == [{0, 1}]


def test_a_lock_that_was_given_up_later_than_any_clock_is_wrong_orders_nothing() -> None:
    late = behind(meet_on_two_nodes("lock"), rank=1, seconds=0.2)
    assert list(unordered(accesses(late, NODES)))


def test_nodes_whose_events_each_wait_for_the_other_are_read_to_the_end() -> None:
    job = Golden()
    for one, other in ((0, 1), (1, 0)):
        leaves(job[one], "barrier", one + 1)
        enters(job[one], "barrier", other + 1)
        writes(job[one])
    assert len(accesses(job.history().last, NODES)) == 2
