"""A schedule lowers the learning rate; broken, rank 0 alone steps it, with what it prints."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def train(alone):
    rank, _ = start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    for x in batches(5):
        learn(model, optimizer, x)
        if rank == 0 or not alone:
            schedule.step()


def broken():
    train(alone=True)


def sound():
    train(alone=False)
