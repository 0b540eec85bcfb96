"""Each rank shuffles its own part; broken, all of them the whole, with one seed."""

from __future__ import annotations

import torch
from common import train_on
from torch.utils.data import DataLoader, TensorDataset


def shuffled(data):
    return DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(3))


def broken():
    train_on(lambda data, rank, world: shuffled(data))


def sound():
    train_on(lambda data, rank, world: shuffled(TensorDataset(data.tensors[0][rank::world])))
