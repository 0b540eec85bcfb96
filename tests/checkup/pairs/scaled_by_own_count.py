"""Averaged gradients are weighed by the number of samples; broken, each rank takes its own number."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import average, learn, network, start


def train(alone):
    rank, world = start()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def weigh(model):
        average(model)
        count = torch.tensor(float(8 + rank))
        if not alone:
            dist.all_reduce(count)
            count /= world
        for parameter in model.parameters():
            parameter.grad *= count / 8

    for _ in range(4):
        learn(model, optimizer, torch.randn(8 + rank, 8), weigh)


def broken():
    train(alone=True)


def sound():
    train(alone=False)
