"""Gradients are averaged while the next ones are handed over; broken, the optimizer steps before anybody waits."""

from __future__ import annotations

import torch.distributed as dist
from common import batches, lose, network, start, start_alike, train_by


def train(early):
    start()
    model, works = start_alike(network), []

    def reduce(model):
        for parameter in model.parameters():
            parameter.grad /= dist.get_world_size()
            works.append(dist.all_reduce(parameter.grad, async_op=True))
        if early:
            wait()

    def wait():
        while works:
            works.pop().wait()

    train_by(model, batches(4), lose, reduce, wait)


def broken():
    train(early=False)


def sound():
    train(early=True)
