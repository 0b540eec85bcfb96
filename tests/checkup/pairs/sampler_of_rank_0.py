"""A sampler divides the samples; broken, each rank takes the part of rank 0."""

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


def sampled(data, rank, world):
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data, num_replicas=world, rank=rank))


def broken():
    train(lambda data, rank, world: sampled(data, 0, world))


def sound():
    train(sampled)
