"""Optimizers of what is not in use, gradients that nothing zeroes, and modes: what is named, and what is excused."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def seen(job: Golden) -> Golden:
    """Return the job, whose ranks were seen to have optimizers."""
    for one in job.ranks:
        one.writes("inputs", gradients=["a"])
    return job


def test_without_an_optimizer_nothing_is_said() -> None:
    with pytest.raises(Abstain, match="no optimizer of torch"):
        ask("optimizers", Golden(2).trains(2).ends_well().history())


def test_an_optimizer_of_what_is_not_in_use_is_named() -> None:
    job = seen(Golden(2).trains(2))
    for one in job.ranks:
        one.writes("stray", optimizer=1, parameters=2, unowned=["head.weight", "head.bias"])
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("stray optimizer", (0, 1), 1)
    assert "and head.weight, which has a gradient, is in no optimizer" in found.sentence()


def test_gradients_that_nothing_zeroes_are_named_with_their_optimizer() -> None:
    job = seen(Golden(2).trains(4))
    job[1].writes("unzeroed", optimizer=2, steps=4)
    (found, *_) = ask("optimizers", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("gradients not zeroed", (1,), 2)
    assert "of optimizer 2 on rank 1 in its first 4 steps" in found.sentence()


def modes(*ranks: str) -> list[Finding]:
    """Return the findings on a job whose ranks train in these modes, a letter a step: train, eval, or none."""
    job = seen(Golden(len(ranks)))
    for number in range(len(ranks[0])):
        for one, letters in zip(job.ranks, ranks, strict=True):
            one.enters("optimize")
            if letters[number].strip() and letters[number] != letters[number - 1 : number]:
                one.writes("mode", optimizer=1, train=letters[number] == "t")
            one.ends_step(f"p{number}")
    return [found for found in ask("optimizers", job.ends_well().history()) if found.cause == "eval mode"]


@pytest.mark.parametrize(("ranks", "blamed", "step", "words"), [
    (("ttee", "ttee"), (0, 1), 3, "batch norm"),
    (("tttt", "ttet"), (1,), 3, ", and the others in train mode"),
    (("tttt", "eeee"), (1,), 1, "trained in eval mode from step 1 on"),
])  # fmt: skip
def test_ranks_that_are_left_in_eval_mode_are_named(ranks: Any, blamed: Any, step: int, words: str) -> None:
    (found,) = modes(*ranks)
    assert (found.ranks, found.step) == (blamed, step) and words in found.sentence()


@pytest.mark.parametrize("ranks", [("tttt", "tttt"), ("eeee", "eeee"), ("tett", "tett"), ("ttte", "ttte"), ("    ",)])
def test_a_mode_that_is_chosen_or_left_again_is_none_to_object_to(ranks: Any) -> None:
    assert modes(*ranks) == []
