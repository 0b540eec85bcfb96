"""A DistributedSampler is told the number of ranks; broken, it is told as many as the cluster could have."""

from __future__ import annotations

from common import train_on
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def sampled(data, rank, world):
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data, world, rank))


def broken():
    train_on(lambda data, rank, world: sampled(data, rank, 2 * world))


def sound():
    train_on(sampled)
