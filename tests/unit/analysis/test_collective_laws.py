"""The oracle `collectives` on histories by hand: each law and cause, and legal calls, to which it must not object.

Numbers stand for tensors: `tensor(1, 2)` holds them. The result of a call is written as the ranks got it.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.golden import Golden, GoldenRank

from breakrank.analysis.divergence import Gap, Swap, parting
from breakrank.history.reader import History
from breakrank.oracles import Abstain, Terms
from breakrank.oracles.collectives import judge
from breakrank.verdict import Finding


def tensor(*values: float, pieces: int = 0) -> dict[str, Any]:
    """Return the record of a tensor."""
    made: dict[str, Any] = {"digest": str(values), "n": len(values), "sum": sum(values)}
    made |= {"abs": sum(map(abs, values)), "max": max(values), "min": min(values)}
    made |= {name: str(v) for name, v in made.items() if isinstance(v, float) and not math.isfinite(v)}
    if pieces:
        size = len(values) // pieces
        made["parts"] = [tensor(*values[i * size : (i + 1) * size]) for i in range(pieces)]
    return made


class Calls:
    """Writes the calls of a job's ranks, and counts them as the agent does."""

    def __init__(self, ranks: int = 2) -> None:
        self.job = Golden(ranks)
        self._counts: dict[tuple[int, str], int] = {}
        for one in self.job.ranks:
            one.writes("group", group="0", ranks=list(range(ranks)), backend="gloo", timeout_s=1800.0)
        self.steps()

    def steps(self) -> Calls:
        """Begin the next step on all ranks."""
        for one in self.job.ranks:
            if one.step:
                one.ends_step()
            one.enters("forward")
        return self

    def call(
        self,
        rank: int,
        op: str = "allreduce_",
        read: Any = None,
        got: Any = None,
        site: str = "train.py:8",
        kept: bool = True,
        **facts: Any,
    ) -> Calls:
        """Let a rank call; `read` and `got` are one tensor or a list of them, `got` None if it does not come back."""
        one: GoldenRank = self.job[rank]
        if "p" in facts:
            where = {"p": facts.pop("p"), "peer": facts.pop("peer"), "tag": facts.pop("tag", 0)}
        else:
            number = self._counts[rank, "0"] = self._counts.get((rank, "0"), 0) + 1
            where = {"c": number}
        laws = {} if read is None else {"in": read if isinstance(read, list) else [read]}
        if op.startswith("allreduce"):
            facts.setdefault("reduce", "SUM")
        one.enters("collective", op=op, site=site, **where, **facts, **laws)
        if got is not None:
            out = got if isinstance(got, list) else [got]
            where.pop("tag", None)
            one.writes("done", op=op, group="0", **where, out=out, kept=kept)
        return self

    def sums(self, *read: float, site: str = "train.py:8", wrong: float = 0) -> Calls:
        """Let all ranks sum numbers in the right way; rank 1 is off by `wrong`."""
        for rank, value in enumerate(read):
            self.call(rank, read=tensor(value), got=tensor(sum(read) + wrong * rank), site=site)
        return self

    def history(self) -> History:
        """Return the written history, all ranks having ended well."""
        return self.job.ends_well().history()

    def found(self, control: Calls | None = None) -> list[Finding]:
        """Return the findings of the oracle."""
        model = control.history() if control is not None else None
        return list(judge(self.history(), model, Terms(ranks=self.job.size, steps=3)))

    def fit(self) -> bool:
        """Return whether the calls fit each other, of which no content is on record."""
        try:
            return not self.found()
        except Abstain:
            return True

    def says(self, control: Calls | None = None) -> tuple[str, tuple[int, ...], int]:
        """Return cause, ranks and step of the one finding."""
        (finding,) = self.found(control)
        assert "unknown" not in finding.sentence()
        return finding.cause, finding.ranks, finding.step


# --- laws: (operator, what each rank reads, what each rank gets)

SOUND = {
    "allreduce_": ([tensor(1, 2), tensor(3, 5)], [tensor(4, 7), tensor(4, 7)]),
    "broadcast_": ([tensor(1, 2), []], [tensor(1, 2), tensor(1, 2)]),
    "reduce_": ([tensor(1, 2), tensor(3, 5)], [tensor(4, 7), []]),
    "allgather_": ([tensor(1), tensor(3)], [[tensor(1), tensor(3)]] * 2),
    "_allgather_base_": ([tensor(1), tensor(3)], [tensor(1, 3, pieces=2)] * 2),
    "gather_": ([tensor(1), tensor(3)], [[tensor(1), tensor(3)], []]),
    "scatter_": ([[tensor(1), tensor(3)], []], [tensor(1), tensor(3)]),
    "reduce_scatter_": ([[tensor(1), tensor(2)], [tensor(3), tensor(5)]], [tensor(4), tensor(7)]),
    "_reduce_scatter_base_": ([tensor(1, 2, pieces=2), tensor(3, 5, pieces=2)], [tensor(4), tensor(7)]),
    "alltoall_": ([[tensor(1), tensor(2)], [tensor(3), tensor(5)]], [[tensor(1), tensor(3)], [tensor(2), tensor(5)]]),
    "alltoall_base_": (
        [tensor(1, 2, pieces=2), tensor(3, 5, pieces=2)],
        [tensor(1, 3, pieces=2), tensor(2, 5, pieces=2)],
    ),
}
ROOTED = ("broadcast_", "reduce_", "gather_", "scatter_")
REDUCE = ("allreduce_", "reduce_", "reduce_scatter_", "_reduce_scatter_base_")


def called(op: str, read: list[Any], got: list[Any]) -> Calls:
    calls = Calls()
    facts: dict[str, Any] = {"root": 0} if op in ROOTED else {}
    facts |= {"reduce": "SUM"} if op in REDUCE else {}
    for rank in (0, 1):
        calls.call(rank, op, read[rank], got[rank], **facts)
    return calls


@pytest.mark.parametrize("op", SOUND)
def test_a_collective_that_keeps_its_law_is_left_alone(op: str) -> None:
    assert called(op, *SOUND[op]).found() == []


@pytest.mark.parametrize("op", SOUND)
def test_one_wrong_number_in_one_output_breaks_the_law(op: str) -> None:
    read, got = SOUND[op]
    rank = 0 if op in ("reduce_", "gather_") else 1
    (first, *rest) = got[rank] if isinstance(got[rank], list) else [got[rank]]
    wrong = tensor(*[99.0] * first["n"], pieces=2 if "parts" in first else 0)
    got = [[wrong, *rest] if r == rank else out for r, out in enumerate(got)]
    cause, ranks, step = called(op, read, got).says()
    assert cause == "wrong collective result" and rank in ranks and step == 1


@pytest.mark.parametrize(("reduce", "result"), [("MAX", 3), ("MIN", 1), ("AVG", 2), ("PRODUCT", 3), ("BAND", 1)])
def test_every_reduction_has_its_own_law_or_none(reduce: str, result: float) -> None:
    calls = Calls()
    for rank, value in enumerate((1.0, 3.0)):
        calls.call(rank, read=tensor(value), got=tensor(result), reduce=reduce)
    assert calls.found() == []


@pytest.mark.parametrize("reduce", ["MAX", "MIN", "AVG"])
def test_a_sum_is_no_other_reduction(reduce: str) -> None:
    calls = Calls()
    for rank, value in enumerate((1.0, 3.0)):
        calls.call(rank, read=tensor(value), got=tensor(4.0), reduce=reduce)
    assert calls.says()[0] == "wrong collective result"


@pytest.mark.parametrize(
    ("dtype", "read", "got"),
    [
        ("float16", (2048.0, 1.0), 2048.0),
        ("bfloat16", (256.0, 1.0), 256.0),
        ("float32", (2.0**24, 1.0), 2.0**24),
        ("int8", (100, 100), -56),
        ("uint8", (200, 100), 44),
        ("float32", (math.nan, 1.0), math.nan),
    ],
)
def test_rounding_and_wrapping_are_no_breach(dtype: str, read: tuple[float, float], got: float) -> None:
    calls = Calls()
    for rank in (0, 1):
        calls.call(rank, read=tensor(read[rank]), got=tensor(got), dtype=dtype)
    assert calls.found() == []


@pytest.mark.parametrize(
    ("dtype", "read", "got"),
    [("float32", (256.0, 1.0), 256.0), ("int32", (100, 100), 199), ("float64", (0.1, 0.2), 0.4)],
)
def test_what_is_more_than_rounding_is_a_breach(dtype: str, read: tuple[float, float], got: float) -> None:
    calls = Calls()
    for rank in (0, 1):
        calls.call(rank, read=tensor(read[rank]), got=tensor(got), dtype=dtype)
    assert calls.says() == ("wrong collective result", (0, 1), 1)


def test_ranks_that_got_different_results_are_told_apart_by_the_majority() -> None:
    calls = Calls(3)
    for rank in range(3):
        calls.call(rank, read=tensor(1, 2), got=tensor(3, 6) if rank != 1 else tensor(6, 3))
    assert calls.says() == ("wrong collective result", (1,), 1)


def test_what_a_collective_must_not_change_is_watched_but_for_the_work_room_of_a_reduce() -> None:
    assert Calls().call(0, read=tensor(1), got=tensor(4), kept=False).call(1, read=tensor(3), got=tensor(4)).says() == (
        "buffer overrun",
        (0,),
        1,
    )
    calls = Calls().call(0, "reduce_", tensor(1), tensor(4), root=0, reduce="SUM")
    assert calls.call(1, "reduce_", tensor(3), [], root=0, reduce="SUM", kept=False).found() == []


def test_a_message_is_what_was_sent_each_tag_by_itself() -> None:
    def messages(second: float) -> Calls:
        calls = Calls()
        for number, tag in ((1, 7), (2, 8)):
            calls.call(0, "send", tensor(number), [], p=number, peer=1, tag=tag)
        calls.call(1, "recv_", [], tensor(2), p=1, peer=0, tag=8)
        return calls.call(1, "recv_", [], tensor(second), p=2, peer=0, tag=7)

    assert messages(1).found() == []
    assert messages(9).says() == ("wrong collective result", (1,), 1)


# --- arguments that all ranks must have in common

ALIKE: dict[str, Any] = {"op": "allreduce_", "dtype": "float32", "shapes": [[2, 3]], "reduce": "SUM"}
DIFFERENT = {
    "collective mismatch": {"op": "broadcast_", "root": 0},
    "dtype mismatch": {"dtype": "int32"},
    "shape mismatch": {"shapes": [[3, 2]]},
    "reduce op mismatch": {"reduce": "MAX"},
}


@pytest.mark.parametrize("cause", DIFFERENT)
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_odd_rank_is_the_minority_or_unlike_its_own_step_before(cause: str, ranks: int) -> None:
    calls = Calls(ranks)
    for rank in range(ranks):
        calls.call(rank, read=tensor(1.0), got=tensor(float(ranks)), **ALIKE)
    calls.steps()
    for rank in range(ranks):
        calls.call(rank, read=tensor(1.0), **(ALIKE if rank != 1 else {**ALIKE, **DIFFERENT[cause]}))
    assert calls.says() == (cause, (1,), 2)


def test_without_a_majority_a_past_and_a_control_both_ranks_are_named_and_with_the_control_the_odd_one() -> None:
    def calls(odd: str) -> Calls:
        made = Calls()
        for rank in (0, 1):
            made.call(rank, read=tensor(1.0), got=tensor(2.0), dtype=odd if rank == 1 else "float32")
        return made

    assert calls("int32").says() == ("dtype mismatch", (0, 1), 1)
    assert calls("int32").says(calls("float32")) == ("dtype mismatch", (1,), 1)


def test_gathering_several_sizes_is_legal_where_all_made_room_for_them() -> None:
    def gathered(shapes: list[list[int]]) -> Calls:
        calls = Calls()
        for rank, read in enumerate((tensor(1), tensor(2, 3))):
            calls.call(rank, "allgather_", read, [tensor(1), tensor(2, 3)], shapes=[*shapes, [rank + 1]])
        return calls

    assert gathered([[1], [2]]).found() == []
    assert gathered([[1], [1]]).says() == ("shape mismatch", (0, 1), 1)


def exchanged(*sizes: tuple[list[int], list[int]], shapes: list[list[int]] | None = None) -> Calls:
    """Return an all-to-all of rows of two elements: those that each rank receives from each, and sends to each."""
    calls = Calls(len(sizes))
    for rank, splits in enumerate(sizes):
        calls.call(rank, "alltoall_base_", shapes=shapes or [[sum(rows), 2] for rows in splits], splits=[*splits])
    return calls


def test_all_to_all_with_split_sizes_that_fit_is_legal() -> None:
    assert exchanged(([1, 4], [1, 2]), ([2, 3], [4, 3])).fit()
    assert exchanged(([1, 4, 0], [1, 2, 5]), ([2, 3, 1], [4, 3, 0]), ([5, 0, 2], [0, 1, 2])).fit()


def test_all_to_all_with_split_sizes_that_do_not_fit_names_both_ends() -> None:
    calls = exchanged(([1, 4], [1, 2]), ([3, 3], [4, 3]))
    assert calls.says() == ("shape mismatch", (0, 1), 1)
    assert "rank 0 has 4 elements for rank 1 (train.py:8), rank 1 has 6 from rank 0" in calls.found()[0].sentence()
    assert exchanged(([1, 2], [1, 3]), ([1, 2], [1, 3])).says() == ("shape mismatch", (0, 1), 1), "alike, and wrong"
    alone = exchanged(([1, 4], [2, 2]), ([2, 3], [4, 3]))
    assert (alone.says(), alone.found()[0].evidence["held"]) == (
        ("shape mismatch", (0,), 1),
        "rank 0 has 4 elements for itself and room for 2 (train.py:8)",
    )


def test_all_to_all_of_even_parts_has_one_size_on_all_ranks() -> None:
    calls = Calls()
    for rank, size in ((0, 12), (1, 10)):
        calls.call(rank, "alltoall_base_", shapes=[[size, 8], [size, 8]])
    assert calls.says() == ("shape mismatch", (0, 1), 1)
    assert "rank 0 has 12×8 (train.py:8), rank 1 has 10×8 (train.py:8)" in calls.found()[0].sentence()
    lists = Calls()
    for rank, size in ((0, 6), (1, 5)):
        lists.call(rank, "alltoall_", shapes=[[size, 8]] * 4)
    assert lists.says() == ("shape mismatch", (0, 1), 1)
    fits = Calls()
    for rank, (received, sent) in enumerate((([1, 4], [1, 2]), ([2, 3], [4, 3]))):
        fits.call(rank, "alltoall_", shapes=[[rows, 8] for rows in (*received, *sent)])
    assert fits.fit()


# --- the order of calls


def test_a_branch_of_each_rank_is_legal() -> None:
    calls = Calls()
    for number in range(20):
        for rank in (0, 1):
            calls.call(rank, read=tensor(1.0 + number), got=tensor(2.0 + 2 * number), site=f"train.py:{8 + rank}")
        if number % 3 == 0:
            calls.sums(1.0, 2.0, site="train.py:20")
    assert calls.found() == []


def test_a_rank_that_ran_out_of_batches_may_shadow_the_others() -> None:
    """Rank 0 makes the same calls from another line, as torch's `join` does, and both ranks end at one call."""
    for early in range(1, 6):
        calls = Calls().sums(1.0, 1.0, site="train.py:9").sums(1.0, 2.0, site="train.py:10")
        for number in range(early):
            for line in (9, 10):
                calls.call(0, read=tensor(0.0), got=tensor(3.0 + number), site="train.py:5")
                calls.call(1, read=tensor(3.0 + number), got=tensor(3.0 + number), site=f"train.py:{line}")
        for _ in range(3):
            calls.sums(0.0, 0.0, site="train.py:5")
        assert calls.found() == []


def in_order(first: list[str], second: list[str], tell: dict[str, float]) -> Calls:
    """Return a sound step of A, B, C and then one in which the ranks call in these orders."""
    calls = Calls()
    for site in "ABC":
        calls.sums(tell[site], tell[site] + 1, site=f"train.py:{site}")
    calls.steps()
    for here, there in zip(first, second, strict=True):
        total = tell[here] + tell[there] + 1
        calls.call(0, read=tensor(tell[here]), got=tensor(total), site=f"train.py:{here}")
        calls.call(1, read=tensor(tell[there] + 1), got=tensor(total), site=f"train.py:{there}")
    return calls


TELL = {"A": 1.0, "B": 20.0, "C": 300.0, "D": 4000.0}


def test_swapped_calls_are_found_by_what_each_line_should_have_got() -> None:
    assert in_order(list("ABC"), list("BAC"), TELL).says() == ("order mismatch", (1,), 2)
    assert in_order(list("ABC"), list("BAC"), dict.fromkeys("ABCD", 1.0)).found() == []


def test_a_skipped_call_is_found_and_so_is_one_too_many() -> None:
    skipping, adding = list("ABCABCABC"), list("ACABCABCA")
    assert in_order(skipping, adding, TELL).says() == ("collective skipped", (1,), 2)
    added = in_order(list("ABCABC"), list("ADBCAB"), TELL)
    assert added.says() == ("collective added", (1,), 2)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("ABC", "BAC", Swap(2)),
        ("ABCX", "CABX", Swap(3)),
        ("ABCABC", "BCABCA", Swap(6)),
        ("ABCABC", "BCABC", [Gap(1, True)]),
        ("ABC" * 40, "BCA" * 40, [Gap(1, True)]),
        ("AB" * 40, "BA" * 40, [Gap(1, True), Gap(1, False)]),
        ("ABXY", "CDXY", None),
        ("ABJJJ", "JJJJJ", None),
        ("A", "B", None),
        ("", "A", None),
    ],
)
def test_how_orders_part(one: str, other: str, expected: Any) -> None:
    assert parting(one, other) == expected


# --- findings and their sentences


def test_only_the_first_wrong_call_is_named_what_follows_may_be_its_consequence() -> None:
    calls = Calls().sums(1.0, 2.0).steps().sums(1.0, 2.0, wrong=1.0).steps().sums(1.0, 2.0, wrong=5.0)
    (finding,) = calls.found()
    assert (finding.cause, finding.step, finding.evidence["number"]) == ("wrong collective result", 2, 2)


def test_the_sentence_names_the_operation_both_values_and_both_lines() -> None:
    calls = Calls().call(0, read=tensor(1), site="train.py:88")
    calls.call(1, read=tensor(1), site="train.py:97", reduce="MAX")
    assert calls.found()[0].sentence() == (
        "all_reduce 1 reduces in several ways at step 1: rank 0 called all_reduce (train.py:88) with SUM, "
        "where rank 1 called all_reduce (train.py:97) with MAX"
    )


SIZES = {"A": [64, 10], "B": [10, 10], "C": [10, 10]}


def unweighed(first: str, second: str) -> Calls:
    """Return steps of A, B, C, with no more than the sizes on record, and then a step in these orders."""
    calls = Calls()
    for here, there in zip(f"ABC{first}", f"ABC{second}", strict=True):
        calls.call(0, site=f"train.py:{here}", shapes=[SIZES[here]])
        calls.call(1, site=f"train.py:{there}", shapes=[SIZES[there]])
    return calls


def test_a_call_that_was_left_out_among_equal_ones_is_named_as_soon_as_what_follows_does_not_fit() -> None:
    as_it_should_be = unweighed("ABCABC", "ABCABC")
    assert unweighed("ABCABC", "ACABCA").says(as_it_should_be) == ("collective skipped", (1,), 1)


def test_a_mismatch_in_the_graph_of_a_function_is_found_without_any_content() -> None:
    with pytest.raises(Abstain):
        unweighed("ABC", "ABC").found()
    with pytest.raises(Abstain):
        unweighed("ABC", "ACB").found(unweighed("ABC", "ABC"))


def test_it_abstains_where_no_collective_has_what_it_read() -> None:
    with pytest.raises(Abstain, match="no collective"):
        judge(Calls().call(0).call(1).history(), None, Terms(ranks=2, steps=3))


@pytest.mark.parametrize("reduce", ["SUM", "AVG"])
def test_an_infinity_of_finite_numbers_is_named_with_the_largest(reduce: str) -> None:
    calls = Calls()
    for rank in range(2):
        calls.call(rank, read=tensor(1.0, 4e4), got=tensor(2.0, math.inf), reduce=reduce, dtype="float16")
    (found,) = calls.found()
    assert (found.cause, found.ranks) == ("sum overflowed", (0, 1))
    assert "of float16 at step 1: the largest number that a rank had was 40000" in found.sentence()


def test_an_infinity_that_a_rank_had_before_is_no_overflow_nor_is_a_maximum() -> None:
    for read, reduce in ((tensor(1.0, math.inf), "SUM"), (tensor(1.0, 2.0), "MAX")):
        calls = Calls()
        for rank in range(2):
            calls.call(rank, read=read, got=tensor(2.0, math.inf), reduce=reduce, dtype="float16")
        assert calls.found() == []


def test_where_a_scaler_is_at_work_an_overflow_is_what_it_tries_scales_for() -> None:
    calls = Calls()
    calls.job.ranks[0].writes("scaler")
    for rank in range(2):
        calls.call(rank, read=tensor(4e4), got=tensor(math.inf), dtype="float16")
    assert calls.found() == []
