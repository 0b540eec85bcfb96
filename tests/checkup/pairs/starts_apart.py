"""Gradients are averaged by hand; broken, each rank begins with weights of its own."""

from __future__ import annotations

import torch
from common import average, batches, learn, network, start


def train(apart):
    rank, _ = start()
    torch.manual_seed(rank if apart else 7)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x, average)


def broken():
    train(apart=True)


def sound():
    train(apart=False)
