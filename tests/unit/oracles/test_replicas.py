"""The causes of diverging replicas, by the ranks' records of the step; and several ranks compared with one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.verdict import Finding

NAMES = ["0.weight", "0.bias", "2.weight"]


def parted(parts: dict[int, str], told: dict[int, dict[str, Any]] | None = None) -> Golden:
    """Return a job whose ranks end step 2 with these parts, a letter each, and with this record of reductions."""
    job = Golden(2).trains(1)
    for one in job.ranks:
        letters = parts[one.rank]
        one.trains([10 + one.rank], params=letters, parts=list(letters)).writes("names", names=NAMES, eps=1e-7)
        if told and one.rank in told:
            one.writes("unsynced", **told[one.rank])
    return job.ends_well()


def finding(*args: Any, **kwargs: Any) -> Finding:
    (found,) = ask("replicas", parted(*args, **kwargs).history())
    return found


def with_replicas(*digests: str, assigned: dict[str, Any] | None = None) -> Golden:
    """Return a job of one rank, whose replicas end step 2 with these parameters."""
    job = Golden(1).trains(1)
    apart = [1] if len(set(digests)) > 1 else []
    if assigned:
        job[0].writes("assigned", **assigned)
    job[0].trains([1], replicas=[*digests], apart=apart).writes("names", names=NAMES, eps=1e-7)
    return job.ends_well()


class TestReplicasOfOneRank:
    def test_objects_to_those_that_part(self) -> None:
        (found,) = ask("replicas", with_replicas("a", "b").history(), ranks=1)
        assert (found.cause, found.ranks, found.step) == ("local replicas differ", (0,), 2)
        assert found.sentence() == "the replicas of rank 0 part at step 2, in 0.bias first"

    def test_names_the_line_that_assigns_with_nothing_to_reduce(self) -> None:
        line = {"parts": [1], "how": "replica_by_replica", "site": "train.py:7"}
        (found,) = ask("replicas", with_replicas("a", "b", assigned=line).history(), ranks=1)
        assert (found.cause, found.places) == ("unreduced assignment", ("train.py:7",))
        other = {**line, "parts": [0]}
        (found,) = ask("replicas", with_replicas("a", "b", assigned=other).history(), ranks=1)
        assert (found.cause, found.places) == ("local replicas differ", ())

    def test_leaves_those_alone_that_stay_together(self) -> None:
        line = {"parts": [1], "how": "replica_by_replica", "site": "train.py:7"}
        assert ask("replicas", with_replicas("a", "a", assigned=line).history(), ranks=1) == []


class TestReplicas:
    def test_names_the_first_parameter_that_parts(self) -> None:
        found = finding({0: "abc", 1: "abd"})
        assert (found.cause, found.step, found.evidence["parameters"]) == ("replicas differ", 2, ["2.weight"])
        assert found.sentence().endswith("part from each other at step 2, in 2.weight first")

    @pytest.mark.parametrize(("sharded", "cause"), [([0], ["replicas differ"]), ([2], []), ([0, 1, 2], None)])
    def test_holds_only_what_is_not_sharded_against_the_others(self, sharded: list[int], cause: Any) -> None:
        job = parted({0: "abc", 1: "abd"})
        for one in job.ranks:
            one.writes("names", names=NAMES, eps=1e-7, sharded=sharded)
        if cause is None:
            with pytest.raises(Abstain, match="a shard of the parameters"):
                ask("replicas", job.history())
        else:
            assert [found.cause for found in ask("replicas", job.history())] == cause

    def test_holds_a_stage_against_the_same_stage_alone(self) -> None:
        def job(last: str) -> Golden:
            made = Golden(4)
            for one, params in zip(made.ranks, ("a", "b", "a", last), strict=True):
                one.trains([one.rank], params=params, parts=[params])
                one.writes("names", names=[f"stage {one.rank % 2}: weight"], eps=1e-7)
            return made.ends_well()

        assert ask("replicas", job("b").history(), ranks=4) == []
        (found,) = ask("replicas", job("c").history(), ranks=4)
        assert (found.ranks, found.evidence["parameters"]) == ((1, 3), ["stage 1: weight"])

    @pytest.mark.parametrize(
        ("left", "named"), [(("abc", "abc"), None), (("abc", "abd"), ["2.weight"]), (("abc", "xyz"), NAMES)]
    )
    def test_leaves_those_alone_that_come_together_again(self, left: tuple[str, str], named: list[str] | None) -> None:
        job = Golden(2).trains(1)
        for one, params in zip(job.ranks, ("uvw", "xyz"), strict=True):
            one.trains([one.rank], params=params, parts=list(params)).writes("names", names=NAMES, eps=1e-7)
            one.ends(params=left[one.rank], parts=list(left[one.rank]))
        found = ask("replicas", job.history())
        assert [f.evidence["parameters"] for f in found] == ([] if named is None else [named])

    def test_names_the_line_at_which_workers_assign_with_nothing_to_reduce(self) -> None:
        job = Golden(2).trains(1)
        for one in job.ranks:
            one.writes("assigned", parts=[0], how="worker_by_worker", site="train.py:9")
            one.trains([one.rank], params=str(one.rank), parts=[str(one.rank)])
            one.writes("names", names=["bias"], eps=1e-7)
        (found,) = ask("replicas", job.ends_well().history())
        assert (found.cause, found.places, found.step) == ("unreduced assignment", ("train.py:9",), 2)

    def test_says_no_parameter_where_none_was_recorded(self) -> None:
        job = Golden().trains(1)
        job[0].trains([1], params="a")
        job[1].trains([2], params="b")
        (found,) = ask("replicas", job.ends_well().history())
        assert found.sentence() == "the parameters of ranks 0 and 1 part from each other at step 2"

    @pytest.mark.parametrize(
        ("told", "cause", "ranks"),
        [
            ({0: {"bypassed": True}, 1: {"bypassed": True}}, "wrapper bypassed", (0, 1)),
            ({1: {"bypassed": True}}, "wrapper bypassed", (1,)),
            ({0: {"unreduced": True}, 1: {"unreduced": True}}, "gradients not reduced", (0, 1)),
            ({0: {"unwrapped": [2]}, 1: {"unwrapped": [2]}}, "parameter replaced", (0, 1)),
            ({r: {"unwrapped": [2], "outside": [2]} for r in (0, 1)}, "module not wrapped", (0, 1)),
            ({1: {"missing": [2]}}, "unused parameter", (1,)),
            ({0: {"missing": [0], "unfinished": True}}, "reduction incomplete", (0,)),
        ],
    )
    def test_gives_the_cause_that_the_ranks_recorded(self, told: Any, cause: str, ranks: tuple[int, ...]) -> None:
        found = finding({0: "abc", 1: "abd"}, told=told)
        assert (found.cause, found.ranks) == (cause, ranks)
        assert "unknown" not in found.sentence()

    @pytest.mark.parametrize(
        "told",
        [
            # Every rank bypasses the parameter; another parameter diverges; another parameter is not wrapped.
            {0: {"missing": [2]}, 1: {"missing": [2]}},
            {1: {"missing": [0]}},
            {0: {"unwrapped": [0]}, 1: {"unwrapped": [0]}},
        ],
    )
    def test_takes_nothing_for_the_cause_that_does_not_explain_it(self, told: Any) -> None:
        assert finding({0: "abc", 1: "abd"}, told=told).cause == "replicas differ"

    def test_does_not_explain_by_another_step(self) -> None:
        job = Golden().trains(1)
        job[0].writes("unsynced", bypassed=True)
        job[0].trains([1], params="a", parts=["a"])
        job[1].trains([2], params="b", parts=["b"])
        (found,) = ask("replicas", job.ends_well().history())
        assert (found.cause, found.step) == ("replicas differ", 2)

    def test_does_not_explain_what_came_after_the_last_step(self) -> None:
        job = Golden().trains(1)
        job[0].writes("unsynced", bypassed=True)
        job[0].ends(params="other")
        assert [f.cause for f in ask("replicas", job.ends_well().history())] == ["replicas differ"]

    def test_leaves_replicas_alone_that_are_alike_whatever_was_not_reduced(self) -> None:
        told = {0: {"bypassed": True}, 1: {"unreduced": True}}
        assert ask("replicas", parted({0: "abc", 1: "abc"}, told=told).history()) == []


#: The names of the parts, as a rank records them.
NAMED: dict[str, Any] = {"names": NAMES, "eps": 1e-7}


def job_of(
    *norms: list[float], ranks: int = 2, sizes: tuple[int, ...] = (4, 4), names: dict[str, Any] = NAMED
) -> History:
    """Return a job with these norms of the parameters after each step, on batches of these sizes."""
    job = Golden(ranks)
    for number, values in enumerate(norms):
        for one in job.ranks:
            one.trains(list(range(number * 4, number * 4 + sizes[one.rank])), norms=values)
            if not number:
                one.writes("names", **names)
    return job.ends_well().history()


SAME = [3.0, 0.5, 2.0]


class TestReference:
    def test_objects_to_the_first_step_that_one_rank_would_not_have_made(self) -> None:
        one = job_of(SAME, SAME, SAME, ranks=1)
        (found,) = ask("reference", job_of(SAME, [3.0, 0.6, 2.0], [4.0, 0.6, 2.0]), reference=one)
        assert (found.cause, found.ranks, found.step) == ("reference mismatch", (0, 1), 2)
        assert "in 0.bias first" in found.sentence()

    def test_explains_it_by_batches_of_several_sizes(self) -> None:
        one = job_of(SAME, SAME, ranks=1)
        (found,) = ask("reference", job_of(SAME, [3.0, 0.6, 2.0], sizes=(4, 2)), reference=one)
        assert (found.cause, found.evidence["sizes"]) == ("per-rank loss scaling", "4 and 2")

    def test_leaves_alone_what_rounding_explains(self) -> None:
        one = job_of(SAME, SAME, ranks=1)
        assert ask("reference", job_of(SAME, [3.000001, 0.5, 2.0]), reference=one) == []

    def test_takes_a_tolerance_that_is_given_instead(self) -> None:
        one, other = job_of(SAME, ranks=1), job_of([3.3, 0.5, 2.0])
        assert ask("reference", other, reference=one, tolerance=0.2) == []
        assert [f.step for f in ask("reference", other, reference=one, tolerance=0.01)] == [1]

    def test_leaves_batches_of_several_sizes_alone_that_were_weighed(self) -> None:
        assert ask("reference", job_of(SAME, sizes=(4, 2)), reference=job_of(SAME, ranks=1)) == []

    def test_puts_the_shards_of_a_part_together(self) -> None:
        whole = {**NAMED, "sizes": [9, 3, 4]}
        one = job_of(SAME, SAME, ranks=1, names=whole)
        halves = [math.sqrt(4.5), 0.5, math.sqrt(2.0)]
        of = {**NAMED, "sizes": [5, 3, 2], "sharded": [0, 2]}
        assert ask("reference", job_of(halves, halves, names=of), reference=one) == []
        (found,) = ask("reference", job_of(halves, [*halves[:2], 1.6], names=of), reference=one)
        assert (found.ranks, found.step) == ((0, 1), 2)
        assert f"in {NAMES[2]} first" in found.sentence()

    def test_counts_shards_once_that_several_ranks_have(self) -> None:
        one = job_of(SAME, ranks=1, names={**NAMED, "sizes": [8, 3, 4]})
        of = {**NAMED, "sizes": [4, 3, 2], "sharded": [0, 2]}
        halves = [math.sqrt(4.5), 0.5, math.sqrt(2.0)]
        assert ask("reference", job_of(halves, ranks=4, sizes=(4,) * 4, names=of), reference=one) == []

    @pytest.mark.parametrize(("norm", "objects"), [(math.sqrt(13.25 / 2), False), (2.0, True)])
    def test_compares_a_flat_parameter_by_the_norm_of_all(self, norm: float, objects: bool) -> None:
        one = job_of(SAME, ranks=1, names={**NAMED, "sizes": [8, 3, 4]})
        flat = job_of([norm], names={"names": ["_flat_param"], "eps": 1e-7, "sizes": [8], "sharded": [0]})
        assert bool(ask("reference", flat, reference=one)) is objects

    def test_abstains_where_the_ranks_hold_no_shards_of_one_whole(self) -> None:
        one = job_of(SAME, ranks=1, names={**NAMED, "sizes": [8, 8, 8]})
        with pytest.raises(Abstain, match="nor shards"):
            ask("reference", job_of(SAME, names={**NAMED, "sizes": [3, 3, 3]}), reference=one)

    def test_abstains_without_a_run_of_one_rank(self) -> None:
        with pytest.raises(Abstain, match="as one rank"):
            ask("reference", job_of(SAME))

    def test_abstains_where_no_norms_were_recorded(self) -> None:
        with pytest.raises(Abstain, match="recorded its parameters"):
            ask("reference", job_of(SAME), reference=Golden(1).ends_well().history())


class TestReasons:
    """The reasons for which replicas part, by what their optimizers took."""

    def parted(self, before: tuple[str, str], gradients: tuple[str, str], rates: tuple[str, str]) -> Finding:
        job = Golden(2)
        for one in job.ranks:
            one.writes("settings", optimizer=1, param_group=0, values={"lr": rates[one.rank]})
            letters = ("abc", "abd")[one.rank]
            one.trains([one.rank], params=letters, parts=list(letters)).writes("names", names=NAMES, eps=1e-7)
            one.writes("inputs", before=list(before[one.rank]), gradients=list(gradients[one.rank]))
        (found,) = ask("replicas", job.ends_well().history())
        return found

    @pytest.mark.parametrize(("before", "gradients", "rates", "cause", "words"), [
        (("xyz", "xyz"), ("uvw", "uvw"), ("1", "1"), "replicas differ", "part from each other at step 1"),
        (("xyz", "xyz"), ("uvw", "uvw"), ("1", "2"), "settings differ", "learning rate is 1 on rank 0 and 2 on rank 1"),
        (("xyz", "xya"), ("uvw", "uvw"), ("1", "1"), "replicas differ from the start", "first step, in 2.weight first"),
        (("xyz", "xyz"), ("uvw", "uva"), ("1", "1"), "gradients differ", "in 2.weight first: its gradient differed"),
    ])  # fmt: skip
    def test_they_are_told_apart(self, before: Any, gradients: Any, rates: Any, cause: str, words: str) -> None:
        found = self.parted(before, gradients, rates)
        assert found.cause == cause and words in found.sentence()


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ((["x", "y"], ["z", "y"]), "replicas differ from the start"),
        ((["x", "y"], ["x", "z"]), "replicas differ"),
        ((["x", "y"], None), "replicas differ"),
    ],
)
def test_what_parts_began_with_stands_with_their_names_where_gradients_are_not_on_record(before, cause):
    job = Golden(2)
    for one, began in zip(job.ranks, before, strict=True):
        one.writes("names", names=["a", "b"], eps=1e-7, **({} if began is None else {"before": began}))
        one.trains([one.rank], params=f"p{one.rank}", parts=[f"own{one.rank}", "same"])
    (finding,) = ask("replicas", job.ends_well().history())
    assert (finding.cause, finding.step, finding.evidence["parameters"]) == (cause, 1, ["a"])
