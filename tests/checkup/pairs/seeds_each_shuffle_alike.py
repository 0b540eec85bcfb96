"""Epochs are shuffled; broken, the generator is seeded alike before each of them."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset


def train(seed):
    rank, world = start()
    own = torch.randn(64, 8)[rank::world]
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        torch.manual_seed(seed(epoch))
        for (x,) in DataLoader(TensorDataset(own), batch_size=8, shuffle=True):
            learn(model, optimizer, x)


def broken():
    train(lambda epoch: 3)


def sound():
    train(lambda epoch: 3 + epoch)
