"""Gradients are averaged, the largest first; broken, each rank looks at its own."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import alike_layers, average_named, train_with


def size(model, name, alone):
    largest = dict(model.named_parameters())[name].grad.abs().max() * (1 + dist.get_rank() * name.startswith("0"))
    if not alone:
        dist.all_reduce(largest, torch.distributed.ReduceOp.MAX)
    return -float(largest)


def train(alone):
    def reduce(model, rank):
        sizes = {name: size(model, name, alone) for name, _ in model.named_parameters()}
        order = sorted(sizes, key=lambda name: sizes[name])
        average_named(model, order[::-1] if alone and rank else order)

    train_with(alike_layers(), reduce)


def broken():
    train(alone=True)


def sound():
    train(alone=False)
