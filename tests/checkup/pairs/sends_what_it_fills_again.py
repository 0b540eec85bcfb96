"""A stage sends what it has computed, piece by piece; broken, from a buffer that it fills again before it waits."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import batches, network, start, start_alike, train_by


def train(copies):
    rank, _ = start()
    buffer, pieces = torch.empty(16, 4), 3

    def exchange():
        if rank:
            for _ in range(pieces):
                dist.recv(torch.empty(16, 4), 0)
            return
        works = []
        for piece in range(pieces):
            buffer.fill_(piece + 1)
            works.append(dist.isend(buffer.clone() if copies else buffer, 1))
        for work in works:
            work.wait()

    def lose(model, x):
        exchange()
        return model(x).pow(2).mean()

    train_by(start_alike(network), batches(3, seed=5), lose)


def broken():
    train(copies=False)


def sound():
    train(copies=True)
