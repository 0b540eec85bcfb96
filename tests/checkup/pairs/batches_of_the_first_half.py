"""Ranks take batches in turn; broken, a rank goes on for as many batches as all would need together by half."""

from __future__ import annotations

from common import train_on
from torch.utils.data import DataLoader


def in_turn(data, rank, world, end):
    batches = [[*range(first, first + 4)] for first in range(0, end, 4)]
    return DataLoader(data, batch_sampler=batches[rank::world])


def broken():
    train_on(lambda data, rank, world: in_turn(data, rank, world, len(data) // world))


def sound():
    train_on(lambda data, rank, world: in_turn(data, rank, world, len(data)))
