"""Samples are read by a descriptor; broken, by one position that the workers share."""

from __future__ import annotations

import os

from common import Records, train_on
from torch.utils.data import DataLoader


class ByDescriptor(Records):
    """Has a descriptor of its own, and reads from the position that the file has, or from a place."""

    def __init__(self, data, path, placed):
        super().__init__(data, path)
        self.number, self.placed = os.open(path, os.O_RDONLY), placed

    def read(self, at, size):
        if self.placed:
            return os.pread(self.number, size, at)
        os.lseek(self.number, at, os.SEEK_SET)
        return os.read(self.number, size)


def train(placed):
    train_on(
        lambda data, rank, world: DataLoader(
            ByDescriptor(data, f"samples.{rank}", placed), batch_size=4, num_workers=2, persistent_workers=True
        )
    )


def broken():
    train(placed=False)


def sound():
    train(placed=True)
