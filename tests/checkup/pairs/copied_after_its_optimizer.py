"""A model is copied for each rank; broken, the optimizer keeps the parameters of the first."""

from __future__ import annotations

import copy

import torch
from common import batches, learn, network, start, wrapped


def train(of):
    start()
    first = network()
    model = wrapped(copy.deepcopy(first))
    optimizer = torch.optim.SGD(of(first, model).parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x)


def broken():
    train(lambda first, model: first)


def sound():
    train(lambda first, model: model)
