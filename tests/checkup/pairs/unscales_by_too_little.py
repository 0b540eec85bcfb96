"""A loss is scaled up, and gradients down again; broken, by another number where there are several ranks."""

from __future__ import annotations

import torch.distributed as dist
from common import average, train_merged


def train(down):
    def reduce(model):
        average(model)
        for parameter in model.parameters():
            parameter.grad /= down(dist.get_world_size())

    train_merged(reduce, lambda loss: loss * 128)


def broken():
    train(lambda world: 128 * world)


def sound():
    train(lambda world: 128)
