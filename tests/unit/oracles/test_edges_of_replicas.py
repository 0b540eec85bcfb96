"""Replicas that part: which ranks are compared, what differs first, and what is no reason for it."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden, sound

from breakrank.oracles import Abstain
from breakrank.verdict import Finding

NAMES = ["a", "b", "c"]


def parted(*parts: str, names: Any = NAMES, **told: dict[str, Any]) -> Golden:
    """Return a job whose ranks end step 2 with these parts, a letter each; `rN` is what rank N recorded of it."""
    job = Golden(len(parts)).trains(1)
    for one, letters in zip(job.ranks, parts, strict=True):
        one.trains([10 + one.rank], params=letters, parts=[*letters])
        if names is not None:
            one.writes("names", names=names, eps=1e-7)
        if f"r{one.rank}" in told:
            one.writes("unsynced", **told[f"r{one.rank}"])
    return job.ends_well()


def finding(job: Golden, control: Golden | None = None) -> Finding:
    (found,) = ask("replicas", job.history(), control.history() if control is not None else None, ranks=job.size)
    return found


class TestAbstaining:
    @pytest.mark.parametrize("ranks", [1, 2])
    def test_says_why(self, ranks: int) -> None:
        job = Golden(ranks).trains(1)
        if ranks == 2:
            job[1].dies(SIGKILL)
        with pytest.raises(Abstain) as said:
            ask("replicas", job.ends_well().history())
        assert str(said.value) == "there are no two replicas that ended well and recorded their parameters"

    def test_stages_and_shards_have_no_replicas(self) -> None:
        stages = Golden().trains(1)
        for one in stages.ranks:
            one.writes("names", names=[f"stage {one.rank}"], eps=1e-7)
        shards = Golden().trains(1)
        for one in shards.ranks:
            one.writes("names", names=["w"], eps=1e-7, sharded=[0])
        for job, why in [
            (stages, "each rank holds other parameters than the others"),
            (shards, "each rank holds a shard of the parameters, of which no other rank has a replica"),
        ]:
            with pytest.raises(Abstain) as said:
                ask("replicas", job.ends_well().history())
            assert str(said.value) == why

    def test_one_rank_with_replicas_that_are_alike_is_judged(self) -> None:
        job = Golden(1)
        job[0].trains([0], replicas=["d", "d"], apart=[])
        assert ask("replicas", job.ends_well().history()) == []


class TestWhoDiffers:
    def test_all_evidence_of_a_difference(self) -> None:
        assert finding(parted("abc", "abc", "axd")) == Finding(
            *("replicas", "replicas differ", (2,), 2, 0, ()),
            {
                "digests": {"0": "abc", "1": "abc", "2": "axd"},
                "parameters": ["b", "c"],
                "first": ", in b first",
                "others": "those of ranks 0 and 1",
            },
        )

    def test_the_others_are_named_by_how_many_they_are(self) -> None:
        assert finding(parted("a", "b")).evidence["others"] == "each other"
        job = Golden().trains(1)
        job[1].trains([1], "x")
        job.trains(1, only=0)
        assert finding(job.ends_well(), Golden().trains(2).ends_well()).evidence["others"] == "rank 0's"

    def test_of_ranks_without_a_majority_those_unlike_the_control_are_named(self) -> None:
        control = parted("ab", "ab")
        assert finding(parted("ab", "ax"), control).ranks == (1,)
        assert finding(parted("ay", "ax"), control).ranks == (0, 1)

    def test_a_majority_decides_before_the_control(self) -> None:
        assert finding(parted("ax", "ax", "ab"), parted("ab", "ab", "ab")).ranks == (2,)

    def test_after_a_restart_the_control_says_nothing_of_who_differs(self) -> None:
        job = sound_attempt()
        job[0].trains([1], "p2")
        job[1].trains([2], "x")
        found = ask("replicas", job.ends_well().history(), sound(steps=2))
        assert [(f.attempt, f.ranks) for f in found] == [(1, (0, 1))]

    def test_each_attempt_has_its_finding(self) -> None:
        job = parted("ab", "ax")
        job.again().trains(1)
        job[0].trains([1], "y")
        job[1].trains([1], "z")
        assert [f.attempt for f in ask("replicas", job.ends_well().history())] == [0, 1]

    def test_only_ranks_that_ended_well_are_compared(self) -> None:
        job = Golden(3).trains(1)
        job[2].trains([0], "x").dies(SIGKILL)
        assert ask("replicas", job.ends_well().history(), ranks=3) == []

    def test_a_part_without_a_name_is_left_out_of_the_names(self) -> None:
        found = finding(parted("abc", "abd", names=["a", "b"]))
        assert (found.evidence["parameters"], found.evidence["first"]) == ([], "")

    def test_a_rank_with_fewer_parts_is_compared_by_those_that_it_has(self) -> None:
        assert finding(parted("axc", "ab")).evidence["parameters"] == ["b"]

    def test_a_difference_at_the_end_is_told_by_its_own_parts(self) -> None:
        job = parted("ab", "ab", names=None)
        for one in job.ranks:
            one.writes("names", names=NAMES, eps=1e-7)
            one.ends(params=f"end{one.rank}", parts=["a", f"x{one.rank}"])
        found = finding(job)
        assert (found.step, found.evidence["parameters"]) == (2, ["b"])


def sound_attempt() -> Golden:
    """Return a job that was started again after a sound first step."""
    job = Golden().trains(1)
    job[1].dies(SIGKILL)
    return job.ended_by_us().again().trains(1)


class TestShards:
    def test_whole_parts_beside_a_shard_are_compared_in_its_place(self) -> None:
        def job(last: str) -> Golden:
            made = parted("abc", last)
            for one in made.ranks:
                one.writes("names", names=NAMES, eps=1e-7, sharded=[1])
            return made

        assert ask("replicas", job("axc").history()) == []
        found = finding(job("axd"))
        assert (found.evidence["parameters"], found.evidence["digests"]) == (["c"], {"0": "a c", "1": "a d"})

    def test_ranks_with_shards_that_made_no_step_have_nothing_to_compare(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.writes("names", names=NAMES, eps=1e-7, sharded=[1])
        with pytest.raises(Abstain, match=r"^each rank holds a shard"):
            ask("replicas", job.ends_well().history())


class TestReasons:
    @pytest.mark.parametrize(
        ("told", "cause", "ranks"),
        [
            ({"r0": {"bypassed": True, "unreduced": True}}, "wrapper bypassed", (0,)),
            ({"r1": {"unreduced": True, "unwrapped": [2]}}, "gradients not reduced", (1,)),
            ({"r0": {"unwrapped": [2, 1], "unfinished": True}}, "parameter replaced", (0,)),
            ({"r0": {"unwrapped": [1]}, "r1": {"unwrapped": [2]}}, "parameter replaced", (1,)),
            ({"r1": {"unfinished": True, "missing": [2]}}, "reduction incomplete", (1,)),
            ({"r0": {"missing": [0, 2]}}, "unused parameter", (0,)),
            ({"r0": {}}, "replicas differ", (0, 1)),
        ],
    )
    def test_of_several_reasons_the_strongest_is_given_with_its_ranks(self, told: Any, cause: str, ranks: Any) -> None:
        found = finding(parted("abc", "abd", **told))
        assert (found.cause, found.ranks) == (cause, ranks)

    def test_names_what_had_no_gradient_on_any_rank(self) -> None:
        told = {"r0": {"missing": [2, 3]}, "r1": {"missing": [0], "unfinished": True}}
        assert finding(parted("abc", "abd", **told)).evidence["lacking"] == "a, c"

    def test_a_parameter_of_which_all_lacked_the_gradient_or_another_one_is_no_reason(self) -> None:
        for told in ({"r0": {"missing": [2]}, "r1": {"missing": [2]}}, {"r0": {"missing": [1]}}):
            assert finding(parted("abc", "abd", **told)).cause == "replicas differ"

    def test_a_rank_whose_wrapper_knows_one_that_differs_is_no_reason(self) -> None:
        assert finding(parted("abc", "axd", r0={"unwrapped": [2]})).cause == "replicas differ"
        assert finding(parted("abc", "axd", r0={"unwrapped": [1, 2]})).cause == "parameter replaced"

    def test_where_no_parts_are_on_record_none_was_replaced_nor_unused(self) -> None:
        job = Golden().trains(1)
        for one in job.ranks:
            one.trains([one.rank], str(one.rank)).writes("unsynced", unwrapped=[0], missing=[0])
        assert finding(job.ends_well()).cause == "replicas differ"


class TestAssignments:
    def job(
        self, step: int = 1, parts: Any = (1,), site: str = "train.py:7", how: str = "replica_by_replica"
    ) -> Golden:
        """Return a job whose ranks part in the second parameter, and assigned to some after a step."""
        job = Golden()
        for number in (1, 2, 3):
            for one in job.ranks:
                if number == step:
                    one.enters("load").writes("assigned", parts=[*parts], how=how, site=site)
                letters = f"a{one.rank if number > 1 else 'b'}c"
                one.trains([number], letters, parts=[*letters])
        for one in job.ranks:
            one.writes("names", names=NAMES, eps=1e-7)
        return job.ends_well()

    def test_a_line_that_assigned_before_is_the_cause(self) -> None:
        found = finding(self.job())
        assert (found.cause, found.places, found.step) == ("unreduced assignment", ("train.py:7",), 2)
        assert (found.evidence["how"], found.evidence["site"]) == ("replica by replica", "train.py:7")

    def test_one_in_the_step_itself_is_the_cause(self) -> None:
        assert finding(self.job(step=2)).cause == "unreduced assignment"

    def test_of_several_lines_one_that_the_control_has_not_is_the_cause(self) -> None:
        job = self.job()
        job[0].writes("assigned", step=1, parts=[1], how="once", site="train.py:9")
        found = finding(job, self.job())
        assert (found.cause, found.places) == ("unreduced assignment", ("train.py:9",))

    @pytest.mark.parametrize("other", [{"step": 3}, {"parts": (0, 2)}])
    def test_one_that_came_later_or_assigned_to_others_is_not(self, other: dict[str, Any]) -> None:
        assert finding(self.job(**other)).cause == "replicas differ"

    def test_one_at_which_the_control_assigns_too_is_not(self) -> None:
        control = self.job()
        assert finding(self.job(), control).cause == "replicas differ"
        assert finding(self.job(site="train.py:9"), control).cause == "unreduced assignment"

    def test_a_reason_of_the_gradients_is_stronger(self) -> None:
        job = self.job()
        job[0].writes("unsynced", step=2, bypassed=True)
        assert finding(job).cause == "wrapper bypassed"


class TestReplicasOfOneRank:
    def job(self, *ranks: list[tuple[str, str]]) -> Golden:
        """Return a job whose ranks have two replicas with these parameters after each step."""
        job = Golden(len(ranks))
        for one, steps in zip(job.ranks, ranks, strict=True):
            for number, pair in enumerate(steps):
                apart = [1] if pair[0] != pair[1] else []
                one.trains([number], pair[0], replicas=[*pair], apart=apart)
            one.writes("names", names=NAMES, eps=1e-7)
        return job.ends_well()

    def test_the_first_step_is_named_with_all_its_ranks(self) -> None:
        same, apart = ("s", "s"), ("s", "t")
        found = finding(self.job([same, same, apart], [same, apart, same], [same, apart, apart]))
        assert found == Finding(
            *("replicas", "local replicas differ", (1, 2), 2, 0, ()),
            {"digests": {"0": "s", "1": "t"}, "parameters": ["b"], "first": ", in b first"},
        )

    def test_a_later_attempt_is_judged_all_the_same(self) -> None:
        job = self.job([("s", "t")], [("s", "s")]).again()
        for one in job.ranks:
            one.trains([1], f"p{one.rank}")
        found = ask("replicas", job.ends_well().history())
        assert [(f.cause, f.attempt) for f in found] == [("local replicas differ", 0), ("replicas differ", 1)]

    def test_it_is_told_in_place_of_a_difference_between_ranks(self) -> None:
        found = finding(self.job([("s", "t")], [("x", "x")]))
        assert (found.cause, found.ranks) == ("local replicas differ", (0,))


def skipping(*skips: str) -> list[Finding]:
    """Return the findings on ranks of which each letter is a step: `s` was skipped, and another one is the digest."""
    job = Golden(len(skips))
    for one, letters in zip(job.ranks, skips, strict=True):
        for letter in letters:
            one.enters("forward")
            if letter == "s":
                one.writes("overflow", site="train.py:9")
            else:
                one.ends_step(letter)
    return list(ask("replicas", job.ends_well().history()))


def test_a_step_that_the_scaler_of_one_rank_skips_is_named_with_its_line() -> None:
    (found,) = skipping("abcde", "absfg")
    assert (found.cause, found.ranks, found.step) == ("step skipped", (1,), 3)
    assert "the scaler of rank 1 skipped step 3 for gradients that overflowed (train.py:9)" in found.sentence()


def test_steps_that_all_scalers_skip_are_left_alone() -> None:
    assert skipping("absde", "absde") == []


def test_steps_that_all_skip_are_no_reason_for_replicas_that_part() -> None:
    (found,) = skipping("abscd", "absxy")
    assert found.cause != "step skipped"
