"""A sampler divides the samples; broken, each rank takes the part of rank 0."""

from __future__ import annotations

from common import train_on
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def sampled(data, rank, world):
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data, num_replicas=world, rank=rank))


def broken():
    train_on(lambda data, rank, world: sampled(data, 0, world))


def sound():
    train_on(sampled)
