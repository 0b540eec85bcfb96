"""A step that went wrong is undone; broken, the weights before it are the living ones."""

from __future__ import annotations

import torch
from common import batches, learn, network, start


def train(keep):
    start()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for x in batches(4, seed=1):
        before = {name: keep(value) for name, value in model.state_dict().items()}
        learn(model, optimizer, x)
        if model[0].weight.abs().max() > 0.1:
            model.load_state_dict(before)


def broken():
    train(lambda value: value)


def sound():
    train(torch.clone)
