"""The optimizer that counts the steps of a program, whatever others come, go and stay beside it."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from breakrank_agent.agent.optimizers import Optimizers


class Optimizer:
    """An optimizer with parameters of some shapes, or with given ones."""

    def __init__(self, *parameters: Any) -> None:
        self.parameters = [SimpleNamespace(shape=one) if isinstance(one, int) else one for one in parameters]


def seen() -> Optimizers:
    """Return what a rank keeps before anything has stepped."""
    return Optimizers(lambda optimizer: optimizer.parameters)


def step(known: Optimizers, optimizer: Optimizer, times: int = 1) -> bool:
    """Have an optimizer step; return whether it counts the steps then."""
    for _ in range(times):
        known.take(optimizer)
        known.keep()
    return known.first is optimizer


class TestPhases:
    def test_the_first_to_step_counts_the_steps(self) -> None:
        known, first = seen(), Optimizer(4, 2)
        assert step(known, first) and known.all() == [first]

    def test_one_that_has_the_parameters_of_the_first_takes_over_when_it_steps_again(self) -> None:
        known, head = seen(), Optimizer(4, 2)
        step(known, head, 3)
        whole = Optimizer(*head.parameters, 7, 9)
        assert not step(known, whole)
        assert step(known, whole)
        assert known.all() == [whole]

    def test_one_of_a_new_model_of_the_same_shapes_takes_over(self) -> None:
        known, fold = seen(), Optimizer(4, 2)
        step(known, fold, 3)
        for _ in range(3):
            fold = Optimizer(4, 2)
            assert step(known, fold, 2)
            assert known.all() == [fold]

    def test_one_of_other_shapes_takes_over_after_many_steps_and_the_first_stays_known(self) -> None:
        known, encoder, head = seen(), Optimizer(4, 2), Optimizer(9)
        step(known, encoder, 3)
        assert not step(known, head, 16)
        assert step(known, head)
        assert known.all() == [head, encoder]

    def test_one_without_parameters_takes_over_from_none(self) -> None:
        known, first = seen(), Optimizer()
        step(known, first)
        assert not step(known, Optimizer(), 3)


class TestBeside:
    def test_of_two_of_the_same_shapes_that_alternate_the_first_goes_on_counting(self) -> None:
        known, one, other = seen(), Optimizer(4, 2), Optimizer(4, 2)
        for _ in range(20):
            assert step(known, one)
            assert not step(known, other)
        assert known.all() == [one, other]

    def test_one_of_other_shapes_may_step_more_often_than_the_first(self) -> None:
        known, generator, critic = seen(), Optimizer(4), Optimizer(7)
        for _ in range(20):
            assert step(known, generator)
            assert not step(known, critic, 5)

    def test_the_longest_time_between_two_steps_of_the_first_says_for_how_long_others_may_step(self) -> None:
        known, generator, critic = seen(), Optimizer(4), Optimizer(7)
        step(known, generator)
        step(known, critic, 10)
        step(known, generator)
        assert not step(known, critic, 40)
        assert step(known, critic)

    def test_one_that_is_only_there_takes_over_from_none(self) -> None:
        known, first, met = seen(), Optimizer(4), Optimizer(4)
        known.meet(first)
        known.meet(met)
        known.meet(met)
        assert known.first is first and known.all() == [first, met]

    def test_one_that_was_let_go_between_two_steps_is_forgotten(self) -> None:
        known, first = seen(), Optimizer(4)
        step(known, first)
        known.take(Optimizer(9))
        gc.collect()
        known.keep()
        assert known.all() == [first]


class TestInner:
    def test_one_that_stays_beside_others_that_replace_each_other_counts_the_steps(self) -> None:
        known, outer = seen(), Optimizer(4, 2)
        for _ in range(4):
            for _ in range(2):
                step(known, Optimizer(4, 2), 3)
            step(known, outer)
        assert known.first is outer and known.all() == [outer]

    def test_later_inner_ones_are_none_of_the_training(self) -> None:
        known, outer = seen(), Optimizer(4, 2)
        for _ in range(9):
            step(known, Optimizer(4, 2), 3)
            step(known, outer)
        assert known.first is outer and known.all() == [outer]

    def test_a_second_model_that_is_made_anew_with_the_first_is_not_inner(self) -> None:
        known = seen()
        for _ in range(6):
            generator, critic = Optimizer(4), Optimizer(7)
            for _ in range(5):
                step(known, generator)
                step(known, critic)
            assert known.first is generator
