"""The learning rate is warmed up with the samples seen; broken, each rank counts its own."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped


def train(more):
    rank, world = start()
    model = wrapped(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    seen = 0
    for step in range(5):
        size = 8 + (rank * more if step > 1 else 0)
        seen += size if more else size * world
        for group in optimizer.param_groups:
            group["lr"] = min(1.0, seen / 64) * 1e-2
        learn(model, optimizer, torch.randn(size, 8))


def broken():
    train(more=1)


def sound():
    train(more=0)
