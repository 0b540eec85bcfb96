"""A dataset has a generator for its noise; broken, each worker goes on with a copy of it as it was."""

from __future__ import annotations

import numpy as np
from common import Noisy, train_on
from torch.utils.data import DataLoader, get_worker_info


def train(anew):
    def loader(data, rank, world):
        dataset = Noisy(data.tensors[0][rank::world], None)
        dataset.generator = np.random.default_rng(rank)
        dataset.noise = lambda: get_worker_info().dataset.generator.random(8)
        return DataLoader(dataset, batch_size=4, num_workers=2, worker_init_fn=renew if anew else None)

    train_on(loader)


def renew(worker):
    dataset = get_worker_info().dataset
    dataset.generator = np.random.default_rng([worker, 7])


def broken():
    train(anew=False)


def sound():
    train(anew=True)
