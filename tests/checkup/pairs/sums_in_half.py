"""Gradients are averaged in half precision, and clipped; broken, their sum is infinite before it is divided."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import batches, lose, network, start, train_by


def train(before, after):
    _, world = start()

    def average(model):
        for parameter in model.parameters():
            half = (parameter.grad * 1e9).clamp(-4e4, 4e4).div(world if before else 1).half()
            dist.all_reduce(half)
            parameter.grad = (half.float() / (world if after else 1)).clamp(-1.0, 1.0)

    train_by(network(), batches(4), lambda model, x: lose(model, torch.ones_like(x)), average)


def broken():
    train(before=False, after=True)


def sound():
    train(before=True, after=False)
