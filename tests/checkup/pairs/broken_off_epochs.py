"""Each epoch has a step limit; broken, the limit is one, and nothing shuffles."""

from __future__ import annotations

import itertools

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset


def train(limit):
    rank, world = start()
    data = TensorDataset(torch.randn(64, 8)[rank::world])
    loader = DataLoader(data, batch_size=8)
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8 // limit):
        for (x,) in itertools.islice(loader, limit):
            learn(model, optimizer, x)


def broken():
    train(limit=1)


def sound():
    train(limit=4)
