"""Layers are averaged by number; broken, from the last one on where a rank overlaps that with its backward pass."""

from __future__ import annotations

import torch.distributed as dist
from common import alike_layers, train_with


def average_layers(model, order):
    for number in order:
        (weight,) = model[number].parameters()
        dist.all_reduce(weight.grad)
        weight.grad /= dist.get_world_size()


def train(overlaps):
    def reduce(model, rank):
        order = range(len(model))
        average_layers(model, order[::-1] if overlaps(rank) else order)

    train_with(alike_layers(), reduce)


def broken():
    train(lambda rank: rank == 0)


def sound():
    train(lambda rank: True)
