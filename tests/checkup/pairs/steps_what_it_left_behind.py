"""The wrapper is kept for the training; broken, each second pass goes to the model inside of it."""

from __future__ import annotations

import torch
from common import batches, learn, start, wrapped_network


def train(called):
    start()
    model = wrapped_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, x in enumerate(batches(6)):
        learn(called(model, number), optimizer, x)


def broken():
    train(lambda model, number: model.module if number % 2 else model)


def sound():
    train(lambda model, number: model)
