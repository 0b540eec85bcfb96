"""Workers draw noise from NumPy's generator; broken, each of them seeds it alike."""

from __future__ import annotations

import numpy as np
from common import Noisy, train_on
from torch.utils.data import DataLoader


def noise():
    return np.random.rand(8)


def loader(data, seed):
    return DataLoader(Noisy(data, noise), batch_size=4, num_workers=2, worker_init_fn=seed)


def broken():
    train_on(lambda data, rank, world: loader(own(data, rank, world), lambda worker: np.random.seed(3)))


def sound():
    train_on(lambda data, rank, world: loader(own(data, rank, world), lambda worker: np.random.seed(3 + worker)))


def own(data, rank, world):
    return data.tensors[0][rank::world]
