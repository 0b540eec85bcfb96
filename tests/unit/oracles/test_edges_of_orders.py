"""Collectives in several orders: which explanation is told, on whose word, and where none is."""

from __future__ import annotations

from typing import Any

from support.collective_calls import WRONG, Calls, in_order, tensor

from breakrank.verdict import Finding

#: Calls of equal numbers, which show no fault by themselves.
SAME = dict.fromkeys("ABCD", 1.0)


def failing(*orders: str, steps: bool = False) -> Calls:
    """Return a job of equal numbers in these orders, in two steps if so, of which rank 1 fails."""
    calls = Calls(len(orders))
    for number, letters in enumerate(zip(*orders, strict=True)):
        if steps and number in (0, len(orders[0]) // 2):
            calls.steps()
        for rank, letter in enumerate(letters):
            calls.call(rank, tensor(1.0), tensor(float(len(orders))), ord(letter) - ord("A") + 1)
    calls.job[1].reports("RuntimeError", "shapes do not fit")
    return calls


class TestOfJobsThatFail:
    def test_a_call_that_most_made_and_one_did_not_is_told_although_no_number_shows_it(self) -> None:
        found = failing("ABCABC", "ABCACB", "ABCABC").finding()
        assert (found.cause, found.ranks, found.evidence["number"]) == ("order mismatch", (1,), 5)
        left_out = failing("ABCABC", "ABCACA", "ABCABC").finding()
        assert (left_out.cause, left_out.ranks, left_out.evidence["number"]) == ("collective skipped", (1,), 5)

    def test_of_two_ranks_that_nothing_tells_apart_both_are_named(self) -> None:
        assert failing("ABCABC", "ABCACA").found() == [
            Finding(
                *("collectives", "calls misaligned", (0, 1), 0, 0),
                (
                    "rank 0: all_reduce 5 (3×2 × float32, train.py:2)",
                    "rank 1: all_reduce 5 (3×2 × float32, train.py:3)",
                ),
                {
                    **{"op": "all_reduce", "number": 5, "site": "train.py:2", "group": "0", "others": "others"},
                    "held": "rank 0 called all_reduce (train.py:2), where rank 1 called all_reduce (train.py:3)",
                    "callers": 2,
                },
            )
        ]

    def test_a_rank_that_makes_calls_of_the_others_in_no_order_of_theirs_is_out_of_turn(self) -> None:
        found = failing("ABCABC", "ABCAAA", "ABCABC").finding()
        assert (found.cause, found.ranks, found.evidence["number"]) == ("calls misaligned", (1,), 5)
        assert found.evidence["held"] == (
            "rank 1 called all_reduce (train.py:1), where ranks 0 and 2 called all_reduce (train.py:2)"
        )

    def test_of_two_ranks_that_nothing_tells_apart_no_call_is_out_of_turn_without_a_gap(self) -> None:
        assert failing("ABCABC", "ABCAAA").found() == []

    def test_of_two_ranks_that_which_called_otherwise_than_in_its_step_before_is_named(self) -> None:
        found = failing("ABCABC", "ABCBAC", steps=True).finding()
        assert (found.cause, found.ranks, found.step) == ("order mismatch", (1,), 2)

    def test_a_control_in_which_the_ranks_part_alike_is_an_excuse(self) -> None:
        assert failing("ABCABC", "ABCACA").found(in_order("ABC", "ACA", values=SAME)) == []


class TestOnTheWordOfTheControl:
    def test_of_two_ranks_in_several_orders_the_one_that_went_otherwise_there_is_named(self) -> None:
        def told(control: Calls | None) -> tuple[str, tuple[int, ...]]:
            found = in_order("BACABC", "ABCABC").finding(control)
            return found.cause, found.ranks

        assert told(None) == ("order mismatch", (0, 1))
        assert told(in_order("ABCABC", "ABCABC")) == ("order mismatch", (0,))
        assert told(in_order("BACABC", "BACABC")) == ("order mismatch", (1,))

    def test_of_two_layouts_the_one_that_was_not_there_is_named(self) -> None:
        def told(*control: Calls) -> tuple[str, tuple[int, ...]]:
            found = Calls().all(got=WRONG, strides=[[1, 3]]).finding(*control)
            return found.cause, found.ranks

        assert told() == ("layout mismatch", (0, 1))
        assert told(Calls().all()) == ("layout mismatch", (1,))

    def test_a_call_too_many_that_shows_later_is_the_one_that_was_not_there(self) -> None:
        found = self.sized("ABCABCA", "ADBCABC").finding(self.sized("ABCABCA", "ABCABCA"))
        assert (found.cause, found.ranks, found.evidence["number"]) == ("collective added", (1,), 2)

    def test_ranks_that_part_there_too_are_not_the_cause_of_what_shows_later(self) -> None:
        parting = ("BAC", "ABC")
        assert self.sized(*parting, odd=True).finding(self.sized(*parting)).cause == "dtype mismatch"
        longer = self.sized("ABCBAC", "ABCABC", odd=True)
        assert longer.finding(self.sized("ABC", "ABC")).cause == "dtype mismatch"

    def sized(self, first: str, second: str, odd: bool = False) -> Calls:
        """Return a job with these orders of calls, of which C has a size of its own, and rank 1 an `odd` last one."""
        calls = Calls()
        for number, letters in enumerate(zip(first, second, strict=True), 1):
            for rank, letter in enumerate(letters):
                facts: dict[str, Any] = {"shapes": [[64, 10]] if letter == "C" else [[10, 10]]}
                if odd and rank == 1 and number == len(first):
                    facts["dtype"] = "int32"
                calls.call(rank, tensor(1.0), tensor(2.0), ord(letter), **facts)
        return calls


class TestHowFarOrdersAreCompared:
    def test_in_a_long_loop_a_call_that_is_missing_is_no_other_order(self) -> None:
        found = in_order("ABC" * 30, "BCA" * 30, "ABC" * 30).finding()
        assert (found.cause, found.ranks, found.evidence["number"]) == ("collective skipped", (1,), 4)

    def test_of_two_explanations_that_is_told_by_which_the_odd_rank_left_a_call_out(self) -> None:
        found = in_order("ABABABA", "BABABAB", "ABABABA").finding()
        assert (found.cause, found.ranks) == ("collective skipped", (1,))

    def test_a_line_that_is_not_known_tells_no_order(self) -> None:
        # '@' comes before 'A', which is line 1: a call at no line that is known.
        values = {"@": 4000.0, "A": 1.0, "B": 20.0, "C": 300.0}
        assert in_order("@BCABC", "B@CABC", "@BCABC", values=values).found() == []

    def test_a_line_between_two_of_equal_numbers_is_not_summed_with_them(self) -> None:
        assert in_order("ABCABC", "CBAABC", values={"A": 1.0, "B": 20.0, "C": 1.0}).found() == []

    def test_a_third_rank_that_went_its_own_way_leaves_the_order_of_two_unproven(self) -> None:
        assert in_order("ABCABC", "BACABC", "ADCABC").found() == []
        assert in_order("ABC", "ACA", "ABD").found() == []


def looping(*turns: str) -> Calls:
    """Return a job whose ranks call in a loop: a letter for the line and one for the variable, `-` if it is unknown."""
    calls = Calls(len(turns))
    for rank, own in enumerate(turns):
        for line, variable in (own[i : i + 2] for i in range(0, len(own), 2)):
            loop = {} if variable == "-" else {"loop": f"i = {variable}"}
            calls.call(rank, tensor(1.0), tensor(float(len(turns))), ord(line) - ord("A") + 1, **loop)
    return calls


class TestLoops:
    def test_a_loop_in_another_order_is_named(self) -> None:
        found = looping("A0A1A2", "A1A0A2", "A0A1A2").finding()
        assert (found.cause, found.ranks, found.evidence["number"]) == ("order mismatch", (1,), 1)
        assert found.evidence["held"] == "rank 1 has i = 1 (train.py:1), ranks 0 and 2 have i = 0 (train.py:1)"

    def test_a_loop_whose_variable_is_not_known_throughout_is_not_judged(self) -> None:
        assert looping("A-A1", "A1A-").found() == []

    def test_a_loop_that_all_go_through_alike_or_on_other_samples_is_none_to_object_to(self) -> None:
        assert looping("A0A1", "A0A1").found() == looping("A0A1", "A2A3").found() == []

    def test_two_lines_that_a_loop_calls_in_turn_are_not_taken_for_one(self) -> None:
        assert looping("A0B1A1B0", "B1A1B0A0").found() == []


def test_of_outputs_in_one_memory_the_line_of_the_rank_that_has_them_is_told() -> None:
    calls = Calls()
    for rank in (0, 1):
        own = {"overlap": True} if rank else {}
        calls.call(rank, tensor(1.0), [tensor(2.0), tensor(2.0)], 8 + rank, op="allgather_", **own)
    found = calls.finding()
    assert (found.cause, found.ranks, found.evidence["site"]) == ("outputs overlap", (1,), "train.py:9")


def test_an_exchange_that_one_rank_alone_has_called_is_not_judged_by_its_sizes() -> None:
    calls = Calls().call(0, tensor(1.0), None, op="alltoall_base_", shapes=[[4], [2]])
    assert calls.found() == []
