"""Gradients of two passes make a step; broken, they are zeroed before the first pass of all alone."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, wrapped


def train(zero):
    start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, x in enumerate(batches(10)):
        if number == 0 or (zero and number % 2 == 0):
            optimizer.zero_grad()
        (lose(model, x) / 2).backward()
        if number % 2:
            optimizer.step()


def broken():
    train(zero=False)


def sound():
    train(zero=True)
