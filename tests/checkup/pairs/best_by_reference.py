"""The best weights are put back at the end; broken, they were never copied."""

from __future__ import annotations

import copy

import torch
from common import batches, learn, network, start, wrapped


def train(keep):
    start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step, x in enumerate(batches(4)):
        learn(model, optimizer, x)
        if step == 1:
            best = keep(model.state_dict())
    model.load_state_dict(best)


def broken():
    train(lambda state: state)


def sound():
    train(copy.deepcopy)
