"""A stream is read by two workers; broken, each of them reads all of it."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    """Samples of a rank, one after the other; `divided` leaves to each worker its part."""

    def __init__(self, rank, divided):
        self.rank, self.divided = rank, divided

    def __iter__(self):
        worker = get_worker_info()
        each, first = (worker.num_workers, worker.id) if self.divided and worker else (1, 0)
        for number in range(first, 32, each):
            yield torch.randn(8, generator=torch.Generator().manual_seed(1000 * self.rank + number))


def train(divided):
    rank, _ = start()
    loader = DataLoader(Stream(rank, divided), batch_size=8, num_workers=2)
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        learn(model, optimizer, x)


def broken():
    train(divided=False)


def sound():
    train(divided=True)
