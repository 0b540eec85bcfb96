"""Each rank shuffles with a seed of its own; broken, it shuffles the whole, and sound, its part."""

from __future__ import annotations

import torch
from common import train_on
from torch.utils.data import DataLoader, Subset


def shuffled(data, rank):
    return DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(rank))


def broken():
    train_on(lambda data, rank, world: shuffled(data, rank))


def sound():
    train_on(lambda data, rank, world: shuffled(Subset(data, range(rank, len(data), world)), rank))
