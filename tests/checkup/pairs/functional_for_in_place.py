"""A functional all-reduce returns what it made; broken, that is left lying."""

from __future__ import annotations

import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from common import network, start_alike, train_with


def reduce_each(model, takes):
    for parameter in model.parameters():
        mean = functional.all_reduce(parameter.grad, "avg" if dist.get_backend() == "nccl" else "sum", dist.group.WORLD)
        if takes:
            parameter.grad = functional.wait_tensor(mean) / dist.get_world_size()


def broken():
    train_with(start_alike(network), lambda model, rank: reduce_each(model, takes=False))


def sound():
    train_with(start_alike(network), lambda model, rank: reduce_each(model, takes=True))
