"""Gradients are averaged in place; broken, a clone is."""

from __future__ import annotations

import torch.distributed as dist
from common import network, start_alike, train_with


def reduce_each(model, copied):
    for parameter in model.parameters():
        gradient = copied(parameter.grad)
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def broken():
    train_with(start_alike(network), lambda model, rank: reduce_each(model, lambda gradient: gradient.clone()))


def sound():
    train_with(start_alike(network), lambda model, rank: reduce_each(model, lambda gradient: gradient))
