"""Each fold of a validation has a new model; broken, and the optimizer of the first."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def train(anew):
    start()
    optimizer = torch.optim.SGD(network().parameters(), lr=0.1)
    for _ in range(2):
        model = wrapped(network())
        if anew:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in batches(3):
            learn(model, optimizer, x)


def broken():
    train(anew=False)


def sound():
    train(anew=True)
