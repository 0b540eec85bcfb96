"""Replicas of some parameters only, from the start, and after a restart: all that a finding says of where they part."""

from __future__ import annotations

import hashlib
from signal import SIGKILL
from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden, GoldenRank

from breakrank.verdict import Finding

NAMES = ["a", "b", "c"]


def finding(job: Golden, control: Golden | None = None) -> Finding:
    (found,) = ask("replicas", job.history(), control.history() if control is not None else None, ranks=job.size)
    return found


def takes(one: GoldenRank, before: str, gradients: str, params: str) -> None:
    """Let a rank do a step: what its optimizer finds and takes, and what it ends with, a letter for each part."""
    one.trains([10 * one.done + one.rank], params, parts=[*params])
    one.writes("inputs", before=[*before], gradients=[*gradients])


def named(job: Golden) -> Golden:
    """Let all ranks say the names of their parts, and end well."""
    for one in job.ranks:
        one.writes("names", names=NAMES, eps=1e-7)
    return job.ends_well()


class TestFromTheStart:
    def unlike(self, **sites: str) -> str:
        """Return the sentence on ranks that begin unlike; `rN` is the line at which rank N loads a state before."""
        job = Golden(3)
        for one in job.ranks:
            if f"r{one.rank}" in sites:
                one.writes("loaded", site=sites[f"r{one.rank}"])
        for one in job.ranks:
            takes(one, "xyz" if one.rank else "xya", "uvw", "abd" if one.rank else "abc")
            one.writes("loaded", site="later.py:1")
        return finding(named(job)).sentence()

    @pytest.mark.parametrize(("sites", "alone"), [
        ({}, ""),
        ({"r1": "train.py:4"}, ": rank 1 alone loaded a state (train.py:4)"),
        ({"r2": "late.py:5", "r1": "train.py:4"}, ": ranks 1 and 2 alone loaded a state (train.py:4)"),
        ({"r1": ""}, ": rank 1 alone loaded a state"),
        ({f"r{rank}": "train.py:4" for rank in range(3)}, ""),
    ])  # fmt: skip
    def test_the_ranks_that_alone_loaded_a_state_before_are_named(self, sites: Any, alone: str) -> None:
        assert self.unlike(**sites) == (
            f"the parameters of rank 0 differ from those of ranks 1 and 2 before the first step, in c first{alone}"
        )


class TestInVain:
    def test_the_call_that_reduced_a_copy_is_named(self) -> None:
        def taken(letter: str) -> str:
            return hashlib.blake2b(bytes.fromhex(letter * 8), digest_size=4).hexdigest()

        job = Golden()
        for one in job.ranks:
            letter = "ab"[one.rank]
            one.loads([one.rank]).enters("backward")
            one.enters("collective", c=1, site="train.py:9", **{"in": [{"digest": letter * 8}]})
            one.enters("optimize").writes("inputs", before=["x"], gradients=[taken(letter)])
            one.ends_step(letter, parts=[letter])
        found = finding(named(job))
        assert (found.cause, found.ranks) == ("reduction dropped", (0, 1))
        assert found.sentence() == (
            "replicas part at step 1, in a first: all_reduce (train.py:9) reduced a copy of its gradient, and the "
            "optimizers of ranks 0 and 1 took the gradient as it was"
        )

    def test_what_parts_after_the_last_step_is_not_explained_by_its_gradients(self) -> None:
        job = Golden()
        for one in job.ranks:
            takes(one, "xyz", f"u{one.rank}w", "abc")
        for one in named(job).ranks:
            one._events = [event for event in one._events if event["kind"] != "end"]
            one.writes("end", how="returned", code=0, params=f"end{one.rank}", parts=["a", str(one.rank), "c"])
        assert finding(job).cause == "replicas differ"


class TestDivided:
    """Of the second part each pair of ranks has a shard of its own; the others are replicas on all ranks."""

    def job(self, *ends: tuple[str, ...]) -> Golden:
        """Return a job of four ranks, of which these are the parts after each step."""
        job = Golden(4)
        for step in ends:
            for one, params in zip(job.ranks, step, strict=True):
                takes(one, f"x{one.rank // 2}z", f"u{one.rank}w", params)
        return named(job)

    ALIKE = ("aec", "aec", "afc", "afc")

    def test_ranks_with_one_shard_and_the_others_are_compared_by_what_they_have_in_common(self) -> None:
        assert ask("replicas", self.job(self.ALIKE).history(), ranks=4) == []
        whole = finding(self.job(("aec", "aec", "afd", "afc")))
        assert (whole.ranks, whole.evidence["parameters"]) == ((2,), ["c"])
        assert whole.evidence["digests"] == {"0": "a c", "1": "a c", "2": "a d", "3": "a c"}
        shard = finding(self.job(("aec", "aec", "afc", "agc")))
        assert (shard.ranks, shard.evidence["parameters"]) == ((2, 3), ["b"])
        assert shard.evidence["digests"] == {"2": "f", "3": "g"}

    def test_of_several_groups_that_part_the_first_is_told(self) -> None:
        last = ("aec", "aec", "afd", "afc")
        found = finding(self.job(("aec", "aec", "afc", "agc"), ("aec", "aec", "afd", "agc")))
        assert (found.step, found.evidence["parameters"]) == (1, ["b"])
        assert (finding(self.job(self.ALIKE, last)).step, finding(self.job(last, last)).step) == (2, 1)

    def test_a_control_is_looked_at_by_the_same_parts(self) -> None:
        parted = ("aec", "aec", "afd", "afc")
        job, control = self.job(parted, self.ALIKE), self.job(self.ALIKE, self.ALIKE)
        # The control's shards are none that part: its replicas stay together, and those of the job do not.
        assert finding(job, control).step == 1
        assert ask("replicas", job.history(), None, ranks=4) == []

    def test_ranks_that_come_together_without_one_that_ended_before_have_parted(self) -> None:
        job = Golden(4)
        for step in (("aec", "aec", "afd", "afc"), self.ALIKE):
            for one, params in zip(job.ranks, step, strict=True):
                if one.rank < 3 or not one.done:
                    takes(one, f"x{one.rank // 2}z", f"u{one.rank}w", params)
        assert finding(named(job)).step == 1


def test_of_ranks_that_all_differ_the_one_with_a_setting_of_its_own_is_named() -> None:
    job = Golden(3)
    for one in job.ranks:
        one.writes("settings", optimizer=1, param_group=0, values={"lr": "2" if one.rank == 1 else "1"})
        takes(one, "xyz", "uvw", f"ab{one.rank}")
    found = finding(named(job))
    assert (found.cause, found.ranks, found.evidence["others"]) == ("settings differ", (1,), "those of ranks 0 and 2")


class TestForGood:
    def job(self, *steps: tuple[str, str], ends: tuple[str | None, str | None]) -> Golden:
        """Return a job whose ranks have these parts after each step, and these at the end; None: nothing says it."""
        job = Golden()
        for step in steps:
            for one, params in zip(job.ranks, step, strict=True):
                one.trains([one.rank], params, parts=[*params])
        for one, params in zip(job.ranks, ends, strict=True):
            one.writes("names", names=NAMES, eps=1e-7)
            one.ends(params=params, parts=[*params] if params else None)
        return job

    def test_ranks_that_come_together_before_an_end_that_nothing_is_known_of_have_parted(self) -> None:
        parting, same = ("uvw", "xyz"), ("abc", "abc")
        assert ask("replicas", self.job(parting, same, ends=same).history()) == []
        assert finding(self.job(parting, same, ends=("abc", None))).step == 1
        gone = Golden()
        for one, params in zip(gone.ranks, parting, strict=True):
            one.trains([one.rank], params, parts=[*params]).trains([one.rank], "abc", parts=[*"abc"])
        gone[0].exits(0)
        assert finding(gone.ends_well()).step == 1

    def test_what_was_left_out_when_the_others_came_together_is_told_by_the_end(self) -> None:
        found = finding(self.job(("uvw", "xyz"), ("uvw", "xyz"), ("uvw", "xyz"), ends=("abc", "abd")))
        assert (found.step, found.evidence["parameters"]) == (3, ["c"])
        assert found.evidence["digests"] == {"0": "abc", "1": "abd"}


def test_a_step_after_a_restart_is_told_as_one_of_the_whole_training() -> None:
    job = Golden(3).trains(1)
    job[0].saves("one.pt")
    job.trains(2)
    job[0].saves("three.pt")
    job[1].dies(SIGKILL)
    job.ended_by_us().again()
    for one in job.ranks:
        one.restores("a0s1" if one.rank == 2 else "a0s3", "one.pt" if one.rank == 2 else "three.pt")
    job.trains(1)
    for one in job.ranks:
        one.trains([one.rank], "p" if one.rank < 2 else "x")
    (found,) = ask("replicas", job.ends_well().history(), ranks=3)
    assert (found.attempt, found.ranks) == (1, (2,))
    assert found.sentence() == (
        "the parameters of rank 2 part from those of ranks 0 and 1 at step 2 of attempt 1 (step 3 of the training)"
    )


def undigested(one: GoldenRank, steps: int) -> None:
    """Let a rank do steps after which its parameters are not looked at."""
    for _ in range(steps):
        one.enters("forward").enters("optimize").enters("step")
        one.done = one.step


class TestStepsThatNobodyLookedAt:
    def job(self, told_at: int) -> Golden:
        """Return a job that parts between steps 1 and 4, of which one says at a step that it reduced nothing."""
        job = Golden(3).trains(1)
        if told_at == 1:
            job[1].writes("unsynced", unreduced=True)
        for one in job.ranks:
            for step in (2, 3):
                undigested(one, 1)
                if one.rank == 1 and step == told_at:
                    one.writes("unsynced", unreduced=True)
            one.trains([one.rank], "x" if one.rank == 1 else "y")
            if one.rank == 1:
                undigested(one, 1)
                if told_at == 5:
                    one.writes("unsynced", unreduced=True)
        return job.ends_well()

    @pytest.mark.parametrize(("told_at", "cause"), [
        (1, "replicas differ"), (2, "gradients not reduced"), (3, "gradients not reduced"), (5, "replicas differ"),
    ])  # fmt: skip
    def test_each_of_them_may_be_the_cause_and_no_other_one(self, told_at: int, cause: str) -> None:
        found = finding(self.job(told_at))
        assert (found.cause, found.ranks, found.step, found.evidence["since"]) == (cause, (1,), 4, 1)

    def test_replicas_of_one_rank_may_have_parted_at_any_of_them(self) -> None:
        job = Golden(1)
        job[0].trains([0], "s", replicas=["s", "s"], apart=[])
        undigested(job[0], 2)
        job[0].trains([1], "s", replicas=["s", "t"], apart=[0])
        found = finding(named(job))
        assert found.evidence["since"] == 1
        assert found.sentence() == "the replicas of rank 0 part between step 1 and step 4, in a first"
