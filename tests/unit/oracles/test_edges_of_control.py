"""Results that are not the control's: which ranks and step are named, what is compared, and how it is explained."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden, killed, sound

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def stated(*states: dict[str, Any] | None, steps: int = 1, params: str = "p") -> Golden:
    """Return a job whose ranks end with these results."""
    job = Golden(len(states)).trains(steps)
    for one, state in zip(job.ranks, states, strict=True):
        one.ends(state=state, params=params)
    return job


def found(job: Golden, control: Golden, **terms: Any) -> list[Finding]:
    return ask("control", job.history(), control.history(), **terms)


class TestAbstaining:
    def test_says_why(self) -> None:
        bare = Golden()
        for one in bare.ranks:
            one.enters("load").ends(params=None)
        lost = killed().history()
        for history, control, why in [
            (sound(), None, "there is no control to compare with"),
            (sound(), lost, "no rank ended well here and in the control"),
            (lost, sound(), "no rank ended well here and in the control"),
            (bare.history(), sound(), "no rank recorded its parameters or a state, here and in the control"),
            (sound(), bare.history(), "no rank recorded its parameters or a state, here and in the control"),
        ]:
            with pytest.raises(Abstain) as said:
                ask("control", history, control)
            assert str(said.value) == why

    def test_a_rank_that_the_control_has_not_is_left_out(self) -> None:
        assert ask("control", sound(ranks=3), sound(ranks=2)) == []


class TestParameters:
    def wrong(self, *params: str, ranks: int = 2, only: int | None = None) -> Golden:
        """Return a job with these parameters after each step, on all ranks or one."""
        job = Golden(ranks)
        for one in job.ranks:
            for number, digest in enumerate(params, 1):
                mine = digest if only in (None, one.rank) else f"p{number}"
                one.trains([10 * (number - 1) + one.rank], mine)
        return job.ends_well()

    def test_all_evidence_of_a_wrong_result(self) -> None:
        (wrong,) = found(self.wrong("p1", "x", "y", only=1), self.wrong("p1", "p2", "p3"))
        assert wrong == Finding(
            *("control", "wrong result", (1,), 2, 0, ()),
            {"compared": "params", "results": {"1": "y"}, "control": {"1": "p3"}},
        )

    def test_a_difference_that_healed_is_none(self) -> None:
        assert found(self.wrong("x", "p2"), self.wrong("p1", "p2")) == []

    def test_within_a_tolerance_norms_are_compared_step_by_step(self) -> None:
        def job(*norms: float) -> Golden:
            made = Golden(1)
            for norm in norms:
                made[0].trains([1], norm=norm)
            made[0].ends(norm=norms[-1])
            return made

        (wrong,) = found(job(1.0, 1.05, 1.3), job(1.0, 1.0, 1.0), tolerance=0.1)
        assert (wrong.step, wrong.evidence["compared"]) == (3, "norm")
        assert (wrong.evidence["results"], wrong.evidence["control"]) == ({"0": 1.3}, {"0": 1.0})
        (wrong,) = found(job(1.0, 1.3, 1.4), job(1.0, 1.0, 1.0), tolerance=0.1)
        assert (wrong.step, "there" in wrong.evidence) == (2, False)

    def test_after_a_restart_the_last_step_of_the_ranks_that_differ_is_named(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again().trains(1)
        job[1].trains([5]).ends(params="x")
        (wrong,) = found(job.ends_well(), self.wrong("p1"))
        assert (wrong.ranks, wrong.step, wrong.attempt) == ((1,), 2, 1)

    def test_a_difference_after_the_last_step_is_named_by_the_last_step(self) -> None:
        job = Golden().trains(2)
        job[0].ends(params="x")
        (wrong,) = found(job.ends_well(), Golden().trains(2).ends_well())
        assert (wrong.ranks, wrong.step) == ((0,), 2)


class TestContributions:
    def job(self, *put_in: list[str], params: str = "x", op: str = "allreduce_") -> Golden:
        """Return a job of one step; each rank puts numbers with these digests into its collectives."""
        job = Golden(len(put_in))
        for one, contents in zip(job.ranks, put_in, strict=True):
            one.enters("load")
            for number, digest in enumerate(contents, 1):
                call = {"op": op, "group": "0", "c": number, "site": "train.py:8"}
                one.enters("collective", **call, **{"in": [{"digest": digest, "n": 1}]})
            one.ends_step(params)
        return job.ends_well()

    def test_the_rank_that_alone_put_other_numbers_in_is_named(self) -> None:
        (wrong,) = found(self.job(["a"], ["B"], ["c"]), self.job(["a"], ["b"], ["c"], params="p"))
        assert (wrong.cause, wrong.ranks, wrong.step, wrong.places) == ("wrong contribution", (1,), 1, ("train.py:8",))
        assert (wrong.evidence["op"], wrong.evidence["results"]) == ("allreduce", {"0": "x", "1": "x", "2": "x"})

    def test_it_is_the_first_call_that_tells(self) -> None:
        here = self.job(["a", "d", "E"], ["b", "D", "E"])
        (wrong,) = found(here, self.job(["a", "d", "e"], ["b", "d", "e"], params="p"))
        assert (wrong.cause, wrong.ranks) == ("wrong contribution", (1,))

    def test_where_all_put_in_other_numbers_or_none_did_none_stands_out(self) -> None:
        for other in (["A"], ["B"]), (["a"], ["b"]):
            (wrong,) = found(self.job(*other), self.job(["a"], ["b"], params="p"))
            assert (wrong.cause, wrong.ranks) == ("wrong result", (0, 1))

    def test_other_calls_are_not_compared(self) -> None:
        (wrong,) = found(self.job(["a"], ["B", "c"]), self.job(["a"], ["b"], params="p"))
        assert wrong.cause == "wrong result"

    def test_other_numbers_that_change_no_result_are_none(self) -> None:
        assert found(self.job(["a"], ["B"], params="p"), self.job(["a"], ["b"], params="p")) == []

    def test_another_batch_is_the_better_reason(self) -> None:
        def job(batch: str, digest: str, params: str) -> Golden:
            made = Golden(2)
            for one in made.ranks:
                mine = batch if one.rank else "a"
                one.enters("load").writes("payload", of="load", indices=None, samples=None, batch=mine)
                contents = [{"digest": digest if one.rank else "d", "n": 1}]
                one.enters("collective", op="allreduce_", group="0", c=1, site="", **{"in": contents})
                one.ends_step(params)
            return made.ends_well()

        (wrong,) = found(job("B", "E", "x"), job("b", "e", "p"))
        assert (wrong.cause, wrong.ranks) == ("batch mismatch", (1,))


class TestBatches:
    def job(self, *batches: Any, params: str = "x") -> Golden:
        """Return a job of one step; each rank loads batches: a name, or what is on record of one."""
        job = Golden(len(batches))
        for one, batch in zip(job.ranks, batches, strict=True):
            for held in batch if isinstance(batch, list) else [batch]:
                known = held if isinstance(held, dict) else {"batch": held}
                one.enters("load").writes("payload", of="load", indices=None, samples=None, **known)
            one.ends_step(params)
        return job.ends_well()

    def test_the_ranks_that_alone_had_another_batch_are_named(self) -> None:
        (wrong,) = found(self.job("a", "B", "c"), self.job("a", "b", "c", params="p"))
        assert (wrong.cause, wrong.ranks, wrong.step) == ("batch mismatch", (1,), 1)
        assert wrong.evidence["how"] == ""

    def test_it_is_told_of_a_rank_that_alone_has_another_result_too(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.enters("load").writes("payload", of="load", indices=None, samples=None, batch="aB"[one.rank])
            one.ends_step("px"[one.rank])
        (wrong,) = found(job.ends_well(), self.job("a", "b", params="p"))
        assert (wrong.cause, wrong.ranks, wrong.evidence["results"]) == ("batch mismatch", (1,), {"1": "x"})

    def test_where_all_had_another_batch_or_none_none_stands_out(self) -> None:
        for other in (("A", "B"), ("a", "b")):
            (wrong,) = found(self.job(*other), self.job("a", "b", params="p"))
            assert (wrong.cause, wrong.ranks) == ("wrong result", (0, 1))

    def test_a_batch_that_is_not_on_record_on_either_side_is_no_other(self) -> None:
        for mine, its in ((None, "b"), ("b", None)):
            (wrong,) = found(self.job("a", mine), self.job("a", its, params="p"))
            assert wrong.cause == "wrong result"

    @pytest.mark.parametrize(
        ("mine", "its", "how"),
        [
            ({"shapes": [[8], [8, 1]]}, {"shapes": [[8], [8]]}, ", of shape [8, 1] and not [8]"),
            ({"dtypes": ["float16"]}, {"dtypes": ["float32"]}, ", of dtype float16 and not float32"),
            (
                {"shapes": [[4]], "dtypes": ["float16"]},
                {"shapes": [[8]], "dtypes": ["float32"]},
                ", of shape [4] and not [8]",
            ),
            ({"shapes": [[8]]}, {}, ""),
            ({"shapes": [[8]]}, {"shapes": [[8], [8]]}, ""),
        ],
    )
    def test_says_how_the_first_batch_differed_in_form(self, mine: Any, its: Any, how: str) -> None:
        (wrong,) = found(self.job("a", {"batch": "B", **mine}), self.job("a", {"batch": "b", **its}, params="p"))
        assert (wrong.ranks, wrong.evidence["how"]) == ((1,), how)

    def test_each_batch_of_the_step_is_compared(self) -> None:
        (wrong,) = found(self.job(["a", "b"], ["c", "D"]), self.job(["a", "b"], ["c", "d"], params="p"))
        assert (wrong.cause, wrong.ranks) == ("batch mismatch", (1,))

    def test_after_a_restart_batches_explain_nothing(self) -> None:
        job = self.job("a", "b", params="p")
        job.again()
        for one, batch in zip(job.ranks, "aB", strict=True):
            one.enters("load").writes("payload", of="load", indices=None, samples=None, batch=batch)
            one.ends_step("x")
        (wrong,) = found(job.ends_well(), self.job("a", "b", params="p"))
        assert (wrong.cause, wrong.attempt) == ("wrong result", 1)


class TestLacks:
    def job(self, *lacks: Any, params: str = "x", ranks: int = 1) -> Golden:
        """Return a job of one step whose ranks recorded lacks: the rank and facts of each."""
        job = Golden(ranks)
        for one in job.ranks:
            one.trains([one.rank], params).writes("names", names=["w", "v"], eps=0.0)
        for rank, facts in lacks:
            known = {"parts": [0], "of": 2, "site": "train.py:7", "replicas": [1], "kept": False}
            job[rank].writes("lack", **{**known, **facts})
        return job.ends_well()

    def test_all_evidence_of_a_lack(self) -> None:
        (wrong,) = found(self.job((0, {"parts": [1, 0, 5], "replicas": [0, 1]})), self.job(params="p"))
        assert (wrong.cause, wrong.ranks, wrong.step, wrong.places) == (
            "replica not aggregated",
            (0,),
            1,
            ("train.py:7",),
        )
        assert (wrong.oracle, wrong.attempt) == ("control", 0)
        assert {name: wrong.evidence[name] for name in ("parameters", "site", "into", "whose", "compared")} == {
            **{"parameters": ["v", "w"], "site": "train.py:7", "into": "v and w", "compared": "params"},
            "whose": "replica 0 and replica 1 of rank 0",
        }

    def test_ranks_with_the_same_kind_of_lack_are_named_together(self) -> None:
        job = self.job((0, {"kept": True}), (1, {"kept": False}), (2, {"kept": True}), ranks=3)
        (wrong,) = found(job, self.job(params="p", ranks=3))
        assert (wrong.cause, wrong.ranks) == ("stale gradients", (0, 2))

    def test_without_a_line_or_names_it_says_so(self) -> None:
        (wrong,) = found(self.job((0, {"site": "", "parts": [7]})), self.job(params="p"))
        assert (wrong.places, wrong.evidence["into"], wrong.evidence["parameters"]) == ((), "the parameters", [])

    @pytest.mark.parametrize(
        ("usual", "cause"), [([1, 2], "wrong result"), ([1], "wrong result"), ([2], "replica not aggregated")]
    )
    def test_what_the_control_lacks_too_explains_nothing(self, usual: list[int], cause: str) -> None:
        (wrong,) = found(self.job((0, {})), self.job((0, {"replicas": usual}), params="p"))
        assert wrong.cause == cause

    def test_a_lack_explains_nothing_of_a_job_that_was_started_again(self) -> None:
        job = Golden(1).trains(1)
        job[0].dies(SIGKILL)
        job.again()[0].trains([0], "x").writes("lack", parts=[0], of=2, site="", replicas=[1], kept=False)
        (wrong,) = found(job.ends_well(), self.job(params="p"))
        assert (wrong.cause, wrong.attempt) == ("wrong result", 1)

    @pytest.mark.parametrize(("names", "into"), [(None, "the parameters"), (["a"], "a")])
    def test_parts_without_a_name_are_left_out(self, names: Any, into: str) -> None:
        job = Golden(1)
        job[0].trains([0], "x").writes("lack", parts=[0, 1], of=2, site="", replicas=[1], kept=False)
        if names is not None:
            job[0].writes("names", names=names, eps=1e-7)
        (lacking,) = found(job.ends_well(), self.job(params="p"))
        assert (lacking.cause, lacking.evidence["into"]) == ("replica not aggregated", into)

    def test_a_lack_of_a_rank_with_the_right_result_explains_nothing(self) -> None:
        job = Golden()
        job[0].trains([0], "p").writes("lack", parts=[0], of=2, site="", replicas=[1], kept=False)
        job[1].trains([1], "x")
        (wrong,) = found(job.ends_well(), self.job(params="p", ranks=2))
        assert (wrong.cause, wrong.ranks) == ("wrong result", (1,))


class TestStates:
    def test_all_evidence_of_a_wrong_state(self) -> None:
        (wrong,) = found(stated({"score": 1}, {"score": 2}, steps=2), stated({"score": 1}, {"score": 3}))
        assert wrong == Finding(
            *("control", "wrong result", (1,), 2, 0, ()),
            {"compared": "state", "results": {"1": {"score": 2}}, "control": {"1": {"score": 3}}},
        )

    def test_a_wrong_state_and_a_lost_update_after_a_restart_are_told_with_the_attempt(self) -> None:
        for name in ("score", "updates"):
            job = Golden().trains(1)
            job[1].dies(SIGKILL)
            job.ended_by_us().again().trains(1)
            for one in job.ranks:
                one.ends(state={name: 1})
            (wrong,) = found(job, stated({name: 2}, {name: 2}))
            assert (wrong.cause, wrong.attempt) == ("wrong result" if name == "score" else "lost update", 1)

    @pytest.mark.parametrize(
        ("mine", "its", "same"),
        [
            ({"a": 1.0}, {"a": 1.05}, True),
            ({"a": 1.0}, {"a": 1.2}, False),
            ({"a": "x"}, {"a": "y"}, False),
            ({"a": "x"}, {"a": "x"}, True),
            ({"a": 1}, {"a": "1"}, False),
            ({"a": "1"}, {"a": 1}, False),
            ({"a": 1}, {"a": 1, "b": 2}, False),
            ({"a": 1, "b": "x"}, {"a": 1, "b": "z"}, False),
        ],
    )
    def test_states_have_the_same_names_and_numbers_within_the_tolerance(self, mine: Any, its: Any, same: bool) -> None:
        assert (found(stated(mine), stated(its), tolerance=0.1) == []) is same

    def test_a_rank_that_only_one_side_named_a_result_of_is_compared_by_its_parameters(self) -> None:
        assert found(stated({"a": 1}), stated(None)) == []
        (wrong,) = found(stated({"a": 1}, params="x"), stated(None))
        assert wrong.evidence["compared"] == "params"

    def test_ranks_with_and_without_a_state_are_both_compared(self) -> None:
        job, control = stated({"a": 1}, None, params="x"), stated({"a": 2}, None)
        assert [(f.evidence["compared"], f.ranks) for f in found(job, control)] == [("state", (0,)), ("params", (1,))]


class TestUpdates:
    def test_all_evidence_of_updates_that_were_lost_without_a_trace(self) -> None:
        (lost,) = found(stated({"updates": 5}, {"updates": 4}), stated({"updates": 6}, {"updates": 6}))
        assert lost == Finding(
            *("control", "lost update", (0, 1), 0, 0, ()),
            {
                **{"applied": 4, "expected": 6, "events": []},
                "how": "4 of 6 updates arrived: updates were overwritten, and no access on record shows which",
            },
        )

    def test_more_updates_than_the_controls_are_a_wrong_result(self) -> None:
        (wrong,) = found(stated({"updates": 7}), stated({"updates": 6}))
        assert wrong.cause == "wrong result"

    def test_only_ranks_with_fewer_updates_are_named(self) -> None:
        (lost,) = found(stated({"updates": 7}, {"updates": 5}), stated({"updates": 6}, {"updates": 6}))
        assert (lost.cause, lost.ranks) == ("lost update", (1,))

    def test_a_state_without_a_count_of_updates_lost_none(self) -> None:
        (wrong,) = found(stated({"score": 1}), stated({"score": 2}))
        assert wrong.cause == "wrong result"

    def test_an_update_in_one_move_that_was_overwritten_is_the_one_that_was_lost(self) -> None:
        job = Golden().trains(1)
        for turn, (rank, mode) in enumerate([(1, "r"), (0, "rw"), (1, "w")]):
            job[rank].accesses(mode, turn, "aten::add", "8:1")
        for one in job.ranks:
            one.ends(state={"updates": 1})
        (lost,) = found(job, stated({"updates": 2}, {"updates": 2}))
        assert lost.evidence["how"] == "1 of 2 updates arrived: rank 1 overwrote the update of rank 0 at step 1"

    def test_an_access_on_record_names_its_ranks_step_and_events(self) -> None:
        job = Golden(3).trains(1)
        for turn, (rank, mode) in enumerate([(2, "r"), (0, "r"), (2, "w"), (0, "w")]):
            job[rank].accesses(mode, turn, "aten::add", "8:1")
        for one in job.ranks:
            one.ends(state={"updates": 1})
        control = stated(*[{"updates": 2}] * 3)
        history: History = job.history()
        (lost,) = ask("control", history, control.history())
        assert (lost.ranks, lost.step) == ((0, 2), 1)
        assert lost.evidence["how"] == "1 of 2 updates arrived: rank 0 overwrote the update of rank 2 at step 1"
        assert lost.evidence["events"][0] == {"rank": 2, "step": 1, "op": "aten::add", "mode": "r", "turn": 0}
        assert len(lost.evidence["events"]) == 4


class TestContents:
    """Samples that are the control's by their numbers, with other contents on every rank."""

    def job(self, *batches: str, params: str, indices: tuple[int, ...] = (1, 2)) -> Golden:
        made = Golden()
        for one, batch in zip(made.ranks, batches, strict=True):
            one.enters("load").writes("payload", of="load", indices=[*indices], samples=None, batch=batch)
            one.enters("forward").enters("optimize").ends_step(params)
        return made.ends_well()

    def test_are_named_as_such(self) -> None:
        (other,) = found(self.job("x", "y", params="q"), self.job("a", "b", params="p"))
        assert (other.cause, other.ranks, other.step) == ("content mismatch", (0, 1), 1)
        assert "its samples are the control's by their numbers, with other contents" in other.sentence()

    def test_other_samples_or_the_same_batches_are_no_such_finding(self) -> None:
        control = self.job("a", "b", params="p")
        assert [f.cause for f in found(self.job("x", "y", params="q", indices=(1, 3)), control)] == ["wrong result"]
        assert [f.cause for f in found(self.job("a", "b", params="q"), control)] == ["wrong result"]
        assert [f.cause for f in found(self.job("a", "y", params="q"), control)] == ["batch mismatch"]


class TestShardsOfOtherRanks:
    """Shards of parameters that were cut for more ranks, or fewer, than the control's."""

    def shards(self, ranks: int, sharded: list[int]) -> Golden:
        """Return a job of which each rank holds a shard."""
        job = Golden(ranks)
        for one in job.ranks:
            one.writes("names", names=["w"], eps=1e-7, sharded=sharded)
        return job.trains(1).ends_well()

    def test_are_not_compared(self) -> None:
        few = self.shards(1, [0])
        few[0].ends(params="half")
        with pytest.raises(Abstain) as said:
            found(few, self.shards(2, [0]))
        why = "each rank holds a shard of the parameters, and the control's shards were cut for other ranks"
        assert str(said.value) == why

    def test_are_compared_where_there_are_as_many_or_none_is_cut(self) -> None:
        for ranks, sharded in [(2, [0]), (1, [])]:
            few = self.shards(ranks, sharded)
            few.ranks[0].ends(params="other")
            assert [one.cause for one in found(few, self.shards(2, sharded))] == ["wrong result"]
