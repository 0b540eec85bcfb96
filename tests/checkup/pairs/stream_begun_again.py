"""Samples come as a stream; broken, it is begun anew for each step."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Samples that are made when they are asked for."""

    def __len__(self):
        return 64

    def __getitem__(self, number):
        return torch.randn(8, generator=torch.Generator().manual_seed(number))


def train(again):
    rank, world = start()
    loader = DataLoader(Samples(), batch_size=8, sampler=list(range(rank, 64, world)))
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stream = iter(loader)
    for _ in range(4):
        if again:
            stream = iter(loader)
        learn(model, optimizer, next(stream))


def broken():
    train(again=True)


def sound():
    train(again=False)
