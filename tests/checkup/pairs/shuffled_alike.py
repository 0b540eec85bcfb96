"""Each rank shuffles its own part; broken, all of them the whole, with one seed."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset


def train(of):
    rank, world = start()
    data = TensorDataset(torch.randn(64, 8))
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = of(data, rank, world)
    for (x,) in loader:
        learn(model, optimizer, x)


def shuffled(data):
    return DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(3))


def broken():
    train(lambda data, rank, world: shuffled(data))


def sound():
    train(lambda data, rank, world: shuffled(TensorDataset(data.tensors[0][rank::world])))
