"""Gradients are zeroed before each pass; broken, nobody does it."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, wrapped


def train(zero):
    start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in batches(5):
        if zero:
            optimizer.zero_grad()
        lose(model, x).backward()
        optimizer.step()


def broken():
    train(zero=False)


def sound():
    train(zero=True)
