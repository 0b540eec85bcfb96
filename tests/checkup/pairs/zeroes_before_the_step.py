"""Gradients are zeroed once they were used; broken, just before that."""

from __future__ import annotations

import torch
from common import batches, lose, start, wrapped_network


def train(early):
    start()
    model = wrapped_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        lose(model, x).backward()
        if early:
            optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()


def broken():
    train(early=True)


def sound():
    train(early=False)
