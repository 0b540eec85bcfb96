"""Buffers and averages of replicas: what is named, and what is excused."""

from __future__ import annotations

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def passes(*ranks: str, train: str = "tttttt", alike: bool = True) -> list[Finding]:
    """Return the findings on ranks that found buffers, a letter for those of each step, when they reduce."""
    job = Golden(len(ranks))
    for number in range(len(ranks[0])):
        for one, letters in zip(job.ranks, ranks, strict=True):
            one.enters("forward")
            if letters[number] != " ":
                one.writes("buffers", train=train[number] == "t", first="1.mean", buffers=letters[number])
            one.enters("backward").enters("collective", op="allreduce_").ends_step("p" if alike else f"p{one.rank}")
    return list(ask("buffers", job.ends_well().history()))


def test_buffers_that_never_come_together_are_named() -> None:
    (found,) = passes(" abcde", " fghij")
    assert found == Finding("buffers", "buffers differ", (0, 1), 2, 0, (), {"first": "1.mean"})
    assert "in 1.mean first: nothing brings them into line" in found.sentence()


@pytest.mark.parametrize("ranks", [
    (" abcde", " abcde"),
    (" abcde", " afghe"),
    (" abxde", " fgxij"),
    (" axbcd", " fxghi"),
    (" ab   ", " fg   "),
])  # fmt: skip
def test_buffers_that_come_together_or_differ_twice_are_left_alone(ranks: tuple[str, ...]) -> None:
    assert passes(*ranks) == []


def test_three_places_are_enough_and_the_first_may_be_alike() -> None:
    (found,) = passes(" aabc ", " adef ")
    assert found.step == 3


def test_a_validation_counts_as_a_place_of_its_own() -> None:
    assert passes(" abcxe", " fghxj", train="ttttet") == []


def averages(*ranks: str, params: tuple[str, ...] = ("p", "p")) -> list[Finding]:
    """Return the findings on ranks whose averages after each update are these letters."""
    job = Golden(len(ranks))
    for number in range(len(ranks[0])):
        for one, letters in zip(job.ranks, ranks, strict=True):
            one.enters("backward").enters("collective", op="allreduce_").ends_step(params[one.rank])
            one.writes("average", number=number + 1, average=letters[number])
    return list(ask("buffers", job.ends_well().history()))


def test_averages_that_part_while_the_models_do_not_are_named() -> None:
    (found,) = averages("abc", "axy")
    said = {"number": 2}
    assert found == Finding("buffers", "averages differ", (0, 1), 2, 0, (), said)
    assert "after update 2 at step" in found.sentence()
    (first,) = averages("abc", "xyz")
    assert (first.step, first.evidence) == (1, {"number": 1})


def test_averages_of_models_that_part_at_that_very_step_are_left_alone() -> None:
    job = Golden()
    for number in (1, 2):
        for one in job.ranks:
            apart = f"-{one.rank}" if number == 2 else ""
            one.enters("backward").enters("collective", op="allreduce_").ends_step(f"p{number}{apart}")
            one.writes("average", number=number, average=f"a{number}{apart}")
    assert ask("buffers", job.ends_well().history()) == []


def test_averages_that_are_alike_or_those_of_models_that_part_are_left_alone() -> None:
    assert averages("abc", "abc") == averages("abc", "axy", params=("p", "q")) == []


def test_without_buffers_or_without_a_reduction_nothing_is_said() -> None:
    with pytest.raises(Abstain, match="no buffers"):
        ask("buffers", Golden(2).trains(2).ends_well().history())
    job = Golden(1).trains(2)
    job[0].writes("buffers", train=True, first="mean", buffers="b")
    with pytest.raises(Abstain) as said:
        ask("buffers", job.ends_well().history())
    assert str(said.value) == "the ranks hold no replicas of all parameters, or reduce nothing"
