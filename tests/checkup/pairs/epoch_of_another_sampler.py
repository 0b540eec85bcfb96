"""Epochs are shuffled; broken, a sampler that no loader has is told."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def train(again):
    start()
    data = TensorDataset(torch.randn(32, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data) if again else sampler)
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            learn(model, optimizer, x)


def broken():
    train(again=True)


def sound():
    train(again=False)
