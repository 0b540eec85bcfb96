"""A sampler shares the samples out; broken, it takes the number of its samples for one of batches."""

from __future__ import annotations

from common import train_on
from torch.utils.data import DataLoader, Sampler


class Strided(Sampler):
    """Each so-manieth sample."""

    def __init__(self, count, rank, world):
        self._indices = range(rank, count, world)

    def __iter__(self):
        return iter(self._indices)

    def __len__(self):
        return len(self._indices)


def broken():
    train_on(lambda data, rank, world: DataLoader(data, 4, sampler=Strided(len(data) // 4, rank, world)))


def sound():
    train_on(lambda data, rank, world: DataLoader(data, 4, sampler=Strided(len(data), rank, world)))
