"""A model freezes its first layer in train(); broken, that is called after each validation alone."""

from __future__ import annotations

import torch
from common import Staged, average, batches, learn, lose, start


def train(late):
    start()
    model = Staged()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        if epoch or not late:
            model.train()
        for x in batches(3):
            learn(model, optimizer, x, lambda trained: average(trained, has_gradient(trained)))
        model.eval()
        with torch.no_grad():
            lose(model, x)


def has_gradient(model):
    """Return whether the parameter of a name has a gradient."""
    return lambda name: model.get_parameter(name).grad is not None


def broken():
    train(late=True)


def sound():
    train(late=False)
