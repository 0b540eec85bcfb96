"""Epochs are shuffled; broken, the sampler is told of none."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def train(tell):
    start()
    data = TensorDataset(torch.randn(32, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        tell(sampler, epoch)
        for (x,) in loader:
            learn(model, optimizer, x)


def broken():
    train(lambda sampler, epoch: None)


def sound():
    train(lambda sampler, epoch: sampler.set_epoch(epoch))
