"""The samples are divided among the ranks; broken, each rank reads all of them in one order."""

from __future__ import annotations

from common import train_on
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def broken():
    train_on(lambda data, rank, world: DataLoader(data, batch_size=8))


def sound():
    train_on(lambda data, rank, world: DataLoader(data, batch_size=8, sampler=DistributedSampler(data)))
