"""Workers seed Python's generator from torch's seed; broken, they take their own number out of it."""

from __future__ import annotations

import random

from common import Noisy, train_on
from torch.utils.data import DataLoader, get_worker_info


def noise():
    return [random.random() for _ in range(8)]


def train(take_out):
    def seed(worker):
        random.seed(get_worker_info().seed - (worker if take_out else 0))

    train_on(
        lambda data, rank, world: DataLoader(
            Noisy(data.tensors[0][rank::world], noise), batch_size=4, num_workers=2, worker_init_fn=seed
        )
    )


def broken():
    train(take_out=True)


def sound():
    train(take_out=False)
