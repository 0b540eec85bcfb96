"""A sampler shuffles alike on all ranks and takes a stretch of that; broken, the stretch is longer than a share."""

from __future__ import annotations

import torch
from common import train_on
from torch.utils.data import DataLoader, Sampler


class Stretch(Sampler):
    """As many samples as are asked for, from a place of the rank's own on."""

    def __init__(self, count, size, rank, world):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(5)).tolist()
        first = rank * (count - size) // (world - 1)
        self._indices = order[first : first + size]

    def __iter__(self):
        return iter(self._indices)

    def __len__(self):
        return len(self._indices)


def train(size):
    train_on(lambda data, rank, world: DataLoader(data, 4, sampler=Stretch(len(data), size, rank, world)))


def broken():
    train(40)


def sound():
    train(32)
