"""The samples are divided among the ranks; broken, each rank reads all of them in one order."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def train(of):
    rank, world = start()
    data = TensorDataset(torch.randn(64, 8))
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = of(data, rank, world)
    for (x,) in loader:
        learn(model, optimizer, x)


def broken():
    train(lambda data, rank, world: DataLoader(data, batch_size=8))


def sound():
    train(lambda data, rank, world: DataLoader(data, batch_size=8, sampler=DistributedSampler(data)))
