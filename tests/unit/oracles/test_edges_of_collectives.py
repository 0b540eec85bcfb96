"""Collectives that went wrong: all that a finding says of one, and which of several is told."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.collective_calls import WRONG, Calls, in_order, tensor
from support.golden import Golden

from breakrank.oracles import Abstain
from breakrank.verdict import Finding

#: The fact that a call has returned a work to wait for.
ASKED: dict[str, Any] = {"async": True}


class TestEvidence:
    def test_of_a_mismatch(self) -> None:
        found = Calls(3).all().all(line=9, dtype="int32").finding()
        assert found == Finding(
            *("collectives", "dtype mismatch", (1,), 0, 0),
            (
                "rank 1: all_reduce 2 (3×2 × int32, train.py:9)",
                "rank 0: all_reduce 2 (3×2 × float32, train.py:9)",
                "rank 2: all_reduce 2 (3×2 × float32, train.py:9)",
            ),
            {
                **{"op": "all_reduce", "number": 2, "site": "train.py:9", "group": "0", "others": "ranks 0 and 2"},
                "held": "rank 1 has int32 (train.py:9), ranks 0 and 2 have float32 (train.py:9)",
                "callers": 3,
            },
        )

    def test_of_a_mismatch_between_all_ranks_in_no_line_that_is_known(self) -> None:
        found = Calls().all(line=0, dtype="int32", got=WRONG).finding()
        assert found.ranks == (0, 1)
        assert (found.evidence["others"], found.evidence["site"]) == ("others", "no line of its own")
        assert found.evidence["held"] == "rank 0 has float32, rank 1 has int32"

    def test_of_a_wrong_result(self) -> None:
        wrong = Calls(3).all()
        for rank in range(3):
            wrong.call(rank, tensor(1.0), WRONG if rank == 2 else tensor(3.0))
        one = wrong.finding()
        assert (one.cause, one.ranks, one.evidence["site"]) == ("wrong collective result", (2,), "train.py:8")
        assert set(one.evidence) == {"op", "number", "site", "group", "others", "how", "callers"}

    def test_of_another_layout(self) -> None:
        calls = Calls(3)
        for rank in range(3):
            strides = {"strides": [[1, 3], [2, 1]]} if rank == 1 else {}
            calls.call(rank, tensor(1.0), WRONG if rank == 1 else tensor(3.0), **strides)
        found = calls.finding()
        assert (found.cause, found.ranks) == ("layout mismatch", (1,))
        assert found.evidence["held"] == (
            "rank 1 has strides (1, 3) + (2, 1) (train.py:8), ranks 0 and 2 have contiguous tensors (train.py:8)"
        )
        assert found.evidence["how"]

    def test_of_two_ranks_that_with_another_layout_than_before_is_the_odd_one(self) -> None:
        found = Calls().steps().all().steps().all(got=WRONG, strides=[[1, 3]]).finding()
        assert (found.cause, found.ranks) == ("layout mismatch", (1,))

    def test_of_memory_that_was_overwritten(self) -> None:
        found = Calls(3).all(line=9, kept=False).finding()
        assert (found.cause, found.ranks, found.evidence["site"]) == ("buffer overrun", (1,), "train.py:9")
        apart = Calls().call(0, tensor(1.0), tensor(2.0), 8).call(1, tensor(1.0), tensor(2.0), 9, False).finding()
        assert (apart.ranks, apart.evidence["site"]) == ((1,), "train.py:9")
        both = Calls().call(0, tensor(1.0), tensor(2.0), 8, False).call(1, tensor(1.0), tensor(2.0), 9, False).finding()
        assert (both.ranks, both.evidence["site"]) == ((0, 1), "train.py:8")

    def test_no_more_than_eight_calls_are_shown_and_many_ranks_are_counted(self) -> None:
        found = Calls(12).all(dtype="int32").finding()
        assert len(found.places) == 8
        assert found.evidence["others"] == "11 ranks"
        assert found.evidence["held"] == "rank 1 has int32 (train.py:8), 11 ranks have float32 (train.py:8)"
        assert Calls(9).all(dtype="int32").finding().evidence["others"] == "ranks 0, 2, 3, 4, 5, 6, 7 and 8"


class TestMessages:
    def way(self, *sent: dict[str, Any], got: Any = None, **received: Any) -> Calls:
        """Return a job in which rank 0 sends rank 1 fives, the last of which comes in another form, or as another."""
        calls = Calls()
        for number, facts in enumerate(sent, 1):
            last = number == len(sent)
            told = {"reduce": None, "p": number, "tag": 0}
            calls.call(0, tensor(5.0), [], 3, op="send", **told, peer=1, **facts)
            came = got if got is not None and last else tensor(5.0)
            calls.call(1, [], came, 4, op="recv_", **told, peer=0, **(received if last else {}))
        return calls

    def test_a_message_that_came_as_it_was_sent_is_left_alone(self) -> None:
        assert self.way({}, {}).found() == []

    def test_all_evidence_of_a_message_that_came_otherwise(self) -> None:
        found = self.way({}, {}, got=tensor(6.0)).finding()
        assert (found.cause, found.ranks) == ("wrong collective result", (1,))
        assert found.evidence["op"] == "the message from rank 0 to rank 1, number"
        assert (found.evidence["number"], found.evidence["others"]) == (2, "rank 0")
        assert found.evidence["how"]

    def test_all_evidence_of_a_message_of_another_type(self) -> None:
        found = self.way({}, {}, dtype="int32").finding()
        assert (found.cause, found.ranks) == ("dtype mismatch", (0, 1))
        assert found.evidence["op"] == "the message from rank 0 to rank 1, number"
        assert found.evidence["held"] == (
            "rank 0 called send (train.py:3) with float32, where rank 1 called recv (train.py:4) with int32"
        )

    def test_of_a_first_message_the_control_says_which_rank_is_the_odd_one(self) -> None:
        assert self.way({}, dtype="int32").finding().ranks == (0, 1)
        assert self.way({}, dtype="int32").finding(self.way({})).ranks == (1,)
        assert self.way({}, dtype="int32").finding(self.way({"dtype": "int32"}, dtype="int32")).ranks == (0,)

    def test_memory_that_a_receive_overwrote_is_told(self) -> None:
        calls = Calls().call(0, tensor(5.0), [], 3, op="send", reduce=None, p=1, tag=0, peer=1)
        calls.call(1, [], tensor(5.0), 4, False, op="recv_", reduce=None, p=1, tag=0, peer=0)
        assert (calls.finding().cause, calls.finding().ranks) == ("buffer overrun", (1,))

    def test_what_a_sender_changes_before_its_work_is_over_is_its_own_mistake_whatever_came(self) -> None:
        for got in (5.0, 7.0):
            calls = Calls().call(0, tensor(5.0), [], 3, False, op="send", reduce=None, p=1, tag=0, peer=1, **ASKED)
            calls.call(1, [], tensor(got), 4, op="recv_", reduce=None, p=1, tag=0, peer=0)
            assert (calls.finding().cause, calls.finding().ranks) == ("changed in flight", (0,))
            assert calls.finding().sentence().startswith("rank 0 changed what send 1 (train.py:3) reads at step ")


class TestWhichIsTold:
    def wrong(self, *groups: str, steps: bool = False) -> Calls:
        """Return a job with a wrong sum in each of these groups, in one step or in steps of their own."""
        calls = Calls()
        for group in groups:
            for rank in (0, 1):
                calls.call(rank, tensor(1.0), WRONG, group=group)
            if steps:
                calls.steps()
        return calls

    @pytest.mark.parametrize("steps", [False, True])
    def test_of_several_groups_that_which_was_wrong_first(self, steps: bool) -> None:
        assert self.wrong("7", "5", steps=steps).finding().evidence["group"] == "7"
        assert self.wrong("5", "7", steps=steps).finding().evidence["group"] == "5"

    def test_the_earlier_step_counts_before_the_earlier_time(self) -> None:
        calls = Calls()
        calls.call(0, tensor(1.0), WRONG, group="late", step=2).call(1, tensor(1.0), WRONG, group="late", step=2)
        calls.call(0, tensor(1.0), WRONG, group="soon", step=1).call(1, tensor(1.0), WRONG, group="soon", step=2)
        assert (calls.finding().evidence["group"], calls.finding().step) == ("soon", 1)

    def test_each_attempt_has_one_of_its_own(self) -> None:
        calls = Calls()
        for rank in (0, 1):
            calls.call(rank, tensor(1.0), WRONG)
        calls.job.ended_by_us().again()
        calls._counts.clear()
        for rank in (0, 1):
            calls.call(rank, tensor(1.0), WRONG)
        assert [f.attempt for f in calls.found()] == [0, 1]

    def test_one_that_is_wrong_without_any_content_on_record_is_found(self) -> None:
        bare = Golden()
        for one in bare.ranks:
            one.enters("collective", c=1, dtype="int32" if one.rank else "float32")
        assert [f.cause for f in ask("collectives", bare.ends_well().history())] == ["dtype mismatch"]

    def test_says_why_it_abstains(self) -> None:
        with pytest.raises(Abstain) as said:
            ask("collectives", Golden().trains(2).ends_well().history())
        assert str(said.value) == "no collective is on record with what it read and wrote"


class TestOrders:
    def test_all_evidence_of_a_call_that_was_left_out(self) -> None:
        found = in_order("ABCABC", "ACABCA", "ABCABC").finding()
        assert (found.cause, found.ranks) == ("collective skipped", (1,))
        assert found.evidence == {
            **{"op": "all_reduce", "number": 5, "site": "train.py:2", "group": "0", "others": "ranks 0 and 2"},
            "callers": 3,
        }

    def test_all_evidence_of_a_call_too_many(self) -> None:
        found = in_order("ABCABC", "ADBCAB", "ABCABC").finding()
        assert (found.cause, found.ranks) == ("collective added", (1,))
        assert found.evidence == {
            **{"op": "all_reduce", "number": 5, "site": "train.py:4", "group": "0", "others": "ranks 0 and 2"},
            "callers": 3,
        }

    def test_all_evidence_of_another_order(self) -> None:
        found = in_order("ABCABC", "BACABC", "ABCABC").finding()
        assert (found.cause, found.ranks) == ("order mismatch", (1,))
        assert found.evidence["held"] == (
            "rank 1 called all_reduce (train.py:2), where ranks 0 and 2 called all_reduce (train.py:1)"
        )

    def test_a_call_that_was_left_out_is_known_from_any_line_behind_it(self) -> None:
        # Next to each other, B, C and D do not tell which of them was left out.
        values = {"A": 1.0, "B": 20.0, "C": 20.0, "D": 20.0}
        found = in_order("ABCDABCD", "ACDABCDA", values=values).finding()
        assert (found.cause, found.ranks, found.evidence["number"]) == ("collective skipped", (1,), 5)

    def sized(self, first: str, second: str) -> Calls:
        """Return a job whose ranks call A, B and C, of which A alone has another size, and then in these orders."""
        calls = Calls()
        for letters in zip(f"ABC{first}", f"ABC{second}", strict=True):
            for rank, letter in enumerate(letters):
                shapes = [[64, 10]] if letter == "A" else [[10, 10]]
                calls.call(rank, tensor(1.0), tensor(2.0), ord(letter), shapes=shapes)
        return calls

    def test_with_a_control_the_call_that_was_left_out_is_named_and_not_the_first_that_does_not_fit(self) -> None:
        control = self.sized("ABCABC", "ABCABC")
        found = self.sized("ABCABC", "ACABCA").finding(control)
        assert (found.cause, found.ranks, found.evidence["number"]) == ("collective skipped", (1,), 5)

    def test_a_control_that_made_fewer_calls_is_no_reason_to_object(self) -> None:
        assert self.sized("ABC", "ABC").found(self.sized("A", "A")) == []

    def test_lines_of_equal_numbers_show_no_fault(self) -> None:
        same = dict.fromkeys("ABCD", 1.0)
        for orders in (("ABCABC", "BACABC"), ("ABCABC", "ACABCA"), ("ABCABC", "ADBCAB")):
            assert in_order(*orders, values=same).found() == []


def makes_groups(*members: list[int] | None, **facts: Any) -> Golden:
    """Return a job of which each rank makes a group of these members, and comes out of it."""
    job = Golden(len(members))
    for number, ranks in enumerate(members):
        for phase in ("enter", "leave"):
            job[number].writes("grouping", phase=phase, ranks=ranks, site=f"train.py:{number}", **facts)
    return job.ends_well()


def test_groups_that_ranks_make_unlike_are_named_where_the_job_ends_all_the_same() -> None:
    (one,) = ask("collectives", makes_groups([0, 1], None, [0, 1]).history(), ranks=3)
    assert (one.cause, one.ranks) == ("new_group mismatch", (1,))
    assert one.sentence().startswith("call 1 of new_group makes a group of [0, 1] on rank 0 (train.py:0), of all ranks")


def test_all_evidence_of_groups_that_ranks_make_unlike() -> None:
    said = (
        "call 1 of new_group makes a group of [0, 1] on rank 0 (train.py:0), of all ranks on rank 1 (train.py:1) "
        "and of [0, 1] on rank 2 (train.py:2)"
    )
    found = Finding("collectives", "new_group mismatch", (1,), 0, 0, (), {"shown": said})
    assert ask("collectives", makes_groups([0, 1], None, [0, 1]).history(), ranks=3) == [found]


def test_where_each_rank_leaves_the_groups_of_others_to_the_others_all_are_named() -> None:
    (found,) = ask("collectives", makes_groups([0], [1]).history())
    assert (found.cause, found.ranks) == ("new_group mismatch", (0, 1))


def test_groups_that_were_made_before_a_new_rendezvous_are_not_compared() -> None:
    job = Golden()
    job[0].writes("grouping", phase="enter", ranks=[0], site="train.py:1")
    job[0].writes("grouping", phase="leave", ranks=[0], site="train.py:1")
    for one in job.ranks:
        for phase in ("enter", "leave"):
            one.writes("rendezvous", phase=phase)
        for phase in ("enter", "leave"):
            one.writes("grouping", phase=phase, ranks=[0, 1], site="train.py:2")
    with pytest.raises(Abstain):
        ask("collectives", job.ends_well().history())


def test_unlike_groups_of_an_attempt_that_hung_or_called_wrong_are_no_finding_beside() -> None:
    hung = makes_groups([0], [0, 1])
    hung.says("hung", attempt=0, ranks=[0], waiting=[], seconds=1.0)
    with pytest.raises(Abstain):
        ask("collectives", hung.history())
    later = Golden()
    later.hangs([0, 1]).again()
    for one in later.ranks:
        one.writes("grouping", phase="enter", ranks=[*range(one.rank + 1)], site="train.py:1")
        one.writes("grouping", phase="leave", ranks=[*range(one.rank + 1)], site="train.py:1")
    (found,) = ask("collectives", later.ends_well().history())
    assert (found.cause, found.attempt) == ("new_group mismatch", 1)
    calls = Calls().all(got=WRONG)
    for one in calls.job.ranks:
        one.writes("grouping", phase="enter", ranks=[*range(one.rank + 1)], site="train.py:1")
    assert [f.cause for f in calls.found()] == ["wrong collective result"]


@pytest.mark.parametrize("facts", [{}, {"local": True}])
def test_groups_that_ranks_make_alike_are_none_to_object_to(facts: Any) -> None:
    members = ([0], [1], [2]) if facts else (None, [0, 1, 2], [2, 1, 0])
    with pytest.raises(Abstain):
        ask("collectives", makes_groups(*members, **facts).history(), ranks=3)


def test_outputs_in_one_memory_are_the_cause_of_what_is_gathered_wrong() -> None:
    calls = Calls()
    for rank in (0, 1):
        calls.call(rank, tensor(1.0), got=[tensor(2.0), tensor(2.0)], op="allgather_", overlap=True)
    found = calls.finding()
    assert (found.cause, found.ranks) == ("outputs overlap", (0, 1))
    assert found.sentence().startswith("all_gather 1 (train.py:8) writes to one tensor what it gets from several ranks")
