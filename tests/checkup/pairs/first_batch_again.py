"""Training goes on for so many steps; broken, each of them begins a new iterator."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def endless(loader):
    while True:
        yield from loader


def train(again):
    start()
    data = TensorDataset(torch.randn(64, 8))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=True))
    batches = endless(loader)
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        (x,) = next(iter(loader)) if again else next(batches)
        learn(model, optimizer, x)


def broken():
    train(again=True)


def sound():
    train(again=False)
