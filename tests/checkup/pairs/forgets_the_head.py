"""A model has a body and a head; broken, the optimizer has the body alone."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def train(trained):
    start()
    model = network()
    optimizer = torch.optim.Adam(trained(model).parameters(), lr=0.01)
    model = wrapped(model)
    for x in batches(6):
        learn(model, optimizer, x)


def broken():
    train(lambda model: model[0])


def sound():
    train(lambda model: model)
