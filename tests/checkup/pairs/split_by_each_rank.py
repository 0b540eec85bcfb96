"""Training and validation data are split at random; broken, by each rank in its own way."""

from __future__ import annotations

import torch
from common import train_and_validate
from torch.utils.data import random_split


def split(data, seed):
    return random_split(data, [48, 16], generator=torch.Generator().manual_seed(seed))


def broken():
    train_and_validate(lambda data, rank, world: split(data, rank))


def sound():
    train_and_validate(lambda data, rank, world: split(data, 0))
