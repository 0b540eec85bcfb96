"""Losses that are over all samples of a batch, by the shape of what is reduced: which are told, and which are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from breakrank_agent.hooks.torch.loss_weights import reduced_shape
from breakrank_agent.hooks.torch.scored_batches import _is_over, _samples


@pytest.mark.parametrize(("first", "reduced", "told"), [
    (torch.zeros(16, 8), (16, 4), True),
    (torch.zeros(16, 8), (8, 4), False),
    (torch.zeros(2, 32, dtype=torch.int64), (2, 32), True),
    (torch.zeros(2, 32, dtype=torch.int64), (32, 2), True),
    (torch.zeros(2, 32, dtype=torch.int64), (64,), True),
    (torch.zeros(2, 32, dtype=torch.int64), (2, 16), False),
    (torch.zeros(2, 32, 8), (2, 16), False),
    (torch.zeros(4, 3, 8, 8), (4, 10), True),
])  # fmt: skip
def test_a_loss_is_told_that_is_over_each_sample(first: Any, reduced: tuple[int, ...], told: bool) -> None:
    assert _is_over(reduced, _samples(first)) is told


@pytest.mark.parametrize(("lose", "shape"), [
    (lambda x: x.pow(2).mean(), (16, 4)),
    (lambda x: (x.sum(1).sum() / 16) * 0.5, (16,)),
    (lambda x: torch.nn.functional.cross_entropy(x, torch.zeros(16, dtype=torch.int64)), (16,)),
    (lambda x: x.mean() + x.pow(2).sum(), None),
    (lambda x: x.max(), None),
], ids=["mean", "sum", "targets", "two terms", "no mean"])  # fmt: skip
def test_the_shape_of_what_is_reduced_is_the_graphs(lose: Any, shape: Any) -> None:
    assert reduced_shape(lose(torch.zeros(16, 4, requires_grad=True))) == shape
