"""Shards of a dataset are a stream; broken, the workers of a rank have the same shards."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shards(IterableDataset):
    """The samples of some of eight shards."""

    def __init__(self, mine):
        self.mine = mine

    def __iter__(self):
        for shard in self.mine():
            samples = torch.Generator().manual_seed(shard)
            for _ in range(6):
                yield torch.randn(8, generator=samples)


def train(again):
    rank, world = start()

    def mine():
        worker, shards = get_worker_info(), list(range(8))[rank::world]
        return shards if again else shards[worker.id :: worker.num_workers]

    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(Shards(mine), batch_size=4, num_workers=2):
        learn(model, optimizer, x)


def broken():
    train(again=True)


def sound():
    train(again=False)
