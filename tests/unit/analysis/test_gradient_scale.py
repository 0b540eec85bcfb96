"""Gradients that are those of one rank times a number."""

from __future__ import annotations

import pytest
from support.golden import Golden

from breakrank.analysis.gradient_scale import factors
from breakrank.history.reader import RankHistory

ONE = [[1.0, -2.0], [0.5, 3.0]]


def took(*sums: list[list[float]] | None) -> list[RankHistory]:
    """Return ranks whose optimizers took gradients with these sums."""
    job = Golden(len(sums))
    for one, own in zip(job.ranks, sums, strict=True):
        one.trains([1])
        if own is not None:
            one.writes("inputs", gradients=["a", "b"], sums=own).writes("inputs", gradients=["a", "b"], sums=[[9.0]])
    return job.ends_well().history().last


def times(factor: float, of: list[list[float]] = ONE) -> list[list[float]]:
    return [[factor * value for value in part] for part in of]


@pytest.mark.parametrize(("numbers", "said"), [
    ((2.0, 2.0), {0: 2.0, 1: 2.0}),
    ((0.5, 1.0), {0: 0.5, 1: 1.0}),
    ((-1.0, -1.0), {0: -1.0, 1: -1.0}),
    ((1.0, 1.0), {}),
    ((1.0, 1.0005), {}),
    ((0.0, 0.0), {}),
])  # fmt: skip
def test_a_number_is_found_by_which_gradients_differ(numbers, said) -> None:
    (one,) = took(ONE)
    assert factors(took(*map(times, numbers)), one) == said


def test_nothing_is_found_of_gradients_that_are_others_or_not_on_record() -> None:
    (one,) = took(ONE)
    assert factors(took(times(2.0), [[2.0, -4.0], [1.0, 5.0]]), one) == {}
    assert factors(took(times(2.0), None), one) == {}
    assert factors(took(times(2.0), [[2.0, -4.0]]), one) == {}
    assert factors(took(ONE), took(None)[0]) == factors(took(ONE), took(times(0.0))[0]) == {}


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("noise", "found"), [(3e-4, True), (3e-3, False), (3e-2, False)])
def test_gradients_may_be_off_by_a_thousandth_whatever_their_size(size: float, noise: float, found: bool) -> None:
    one = times(size)
    (alone,) = took(one)
    # The noise is at right angles to the gradients, so that it takes no part in the factor.
    off = [[2 * one[0][0] + 4 * noise * size, 2 * one[0][1] + 2 * noise * size], times(2.0, one)[1]]
    assert factors(took(off), alone) == ({0: 2.0} if found else {})
