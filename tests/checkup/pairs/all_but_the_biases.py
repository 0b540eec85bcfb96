"""Gradients are averaged by hand; broken, those of vectors are left out."""

from __future__ import annotations

import torch
from common import average, batches, learn, network, start


def train(chosen):
    start()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x, lambda model: average(model, chosen))


def broken():
    train(lambda name: "weight" in name)


def sound():
    train(lambda name: True)
