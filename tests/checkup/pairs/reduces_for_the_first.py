"""Gradients are averaged by the first rank, which hands them out; broken, it keeps them."""

from __future__ import annotations

import torch.distributed as dist
from common import network, start_alike, train_with


def reduce_each(model, hands_out):
    for parameter in model.parameters():
        dist.reduce(parameter.grad, 0)
        parameter.grad /= dist.get_world_size()
        if hands_out:
            dist.broadcast(parameter.grad, 0)


def broken():
    train_with(start_alike(network), lambda model, rank: reduce_each(model, hands_out=False))


def sound():
    train_with(start_alike(network), lambda model, rank: reduce_each(model, hands_out=True))
