"""Ranks that hold replicas of each other, by the values before the first step and the gradients of it."""

from __future__ import annotations

import pytest
from support.golden import Golden

from breakrank.analysis.kinship import Kin, find_kin


def begun(*ranks: tuple[str, str], sends: bool = False) -> Golden:
    """Return a job whose ranks begin with these parts and gradients, a letter each; a blank is a part not taken."""
    job = Golden(len(ranks))
    for one, (before, gradients) in zip(job.ranks, ranks, strict=True):
        parts = [letter.strip() for letter in before]
        one.trains([one.rank], params=before, parts=parts)
        one.writes("inputs", before=parts, gradients=list(gradients))
        if sends:
            one.enters("forward").enters("collective", op="send", p=1)
    return job


def kin(*ranks: tuple[str, str], sends: bool = False) -> list[Kin]:
    return find_kin(begun(*ranks, sends=sends).history().last)


def test_all_are_replicas_that_begin_alike() -> None:
    assert kin(("ab", "xy"), ("ab", "xz")) == [Kin((0, 1))]


def test_nothing_is_known_of_ranks_that_recorded_no_inputs() -> None:
    assert find_kin(Golden(2).trains(1).history().last) == [Kin((0, 1))]


def test_what_begins_otherwise_and_is_reduced_is_a_replica() -> None:
    assert kin(("ab", "xy"), ("ac", "xy")) == [Kin((0, 1), None, frozenset({1}))]


def test_what_begins_otherwise_and_is_not_reduced_is_each_ranks_own() -> None:
    assert kin(("ab", "xy"), ("ac", "xz")) == [Kin((0, 1), frozenset({0}))]


def test_what_a_module_got_since_it_was_wrapped_is_a_replica_whatever_its_gradient() -> None:
    job = begun(("ab", "xy"), ("ac", "xz"))
    job[1].writes("unsynced", late=[1])
    assert find_kin(job.history().last) == [Kin((0, 1), None, frozenset({1}))]


def test_what_begins_otherwise_and_has_no_gradient_is_no_replica_for_sure() -> None:
    assert find_kin(begun_without("ab", "ac").history().last) == [Kin((0, 1), frozenset({0}))]


def begun_without(*ranks: str) -> Golden:
    """Return a job whose ranks begin with these parts, the second of which had nothing to do."""
    job = Golden(len(ranks))
    for one, before in zip(job.ranks, ranks, strict=True):
        one.trains([one.rank], params=before, parts=list(before))
        one.writes("inputs", before=list(before), gradients=["x", ""])
    return job


def test_ranks_that_begin_alike_hold_one_shard() -> None:
    found = kin(("ab", "xy"), ("ac", "xz"), ("ab", "xv"), ("ac", "xw"))
    assert found == [Kin((0, 1, 2, 3), frozenset({0})), Kin((0, 2), frozenset({1})), Kin((1, 3), frozenset({1}))]


def test_ranks_that_have_nothing_alike_train_alone_unless_they_send_to_each_other() -> None:
    assert kin(("ab", "xy"), ("cd", "vw")) == [Kin((0, 1), None, frozenset({0, 1}))]
    assert kin(("ab", "xy"), ("cd", "vw"), sends=True) == []


@pytest.mark.parametrize(("ops", "dtype", "alone"), [
    (["_reduce_scatter_base_"], "float32", False),
    (["allreduce_", "allgather_"], "bfloat16", False),
    (["allgather_"], "float32", True),
    (["allreduce_"], "float32", True),
    (["_reduce_scatter_base_"], "int64", True),
    ([], "", True),
])  # fmt: skip
def test_ranks_that_bring_shares_of_one_vector_together_in_each_step_do_not_train_alone(
    ops: list[str], dtype: str, alone: bool
) -> None:
    job = begun(("ab", "xy"), ("cd", "vw"))
    for one in job.ranks:
        one.enters("forward")
        for number, op in enumerate(ops, 1):
            one.enters("collective", op=op, dtype=dtype, c=number)
        one.enters("backward").enters("optimize").ends_step("ef", parts=["e", "f"])
    assert find_kin(job.history().last) == ([Kin((0, 1), None, frozenset({0, 1}))] if alone else [])


def test_a_bias_beside_a_divided_matrix_may_begin_alike_and_be_a_shard() -> None:
    job = begun(("abc", "xyz"), ("dbc", "uvw"))
    for one in job.ranks:
        one.writes("names", names=["up.weight", "up.bias", "norm.bias"], eps=1e-7)
    assert find_kin(job.history().last) == [Kin((0, 1), frozenset({2}))]


def test_a_part_that_was_not_taken_says_nothing() -> None:
    assert kin((" b", "xy"), (" b", "xz")) == [Kin((0, 1))]
