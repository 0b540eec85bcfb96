"""Samples lie in a file; broken, it is opened before the workers are forked, which then seek in it together."""

from __future__ import annotations

import io

from common import Records, train_on
from torch.utils.data import DataLoader


class Early(Records):
    """Opens the file at once."""

    def __init__(self, data, path):
        super().__init__(data, path)
        self.file = io.FileIO(path)


def broken():
    train_on(lambda data, rank, world: DataLoader(Early(data, f"samples.{rank}"), batch_size=4, num_workers=2))


def sound():
    train_on(lambda data, rank, world: DataLoader(Records(data, f"samples.{rank}"), batch_size=4, num_workers=2))
