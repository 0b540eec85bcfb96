"""Features of all ranks are told apart; broken, a rank's own come back from the gather without a gradient."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import batches, start, train_by, wrapped_network


def train(puts_own_back):
    rank, world = start()

    def loss(model, x):
        features = model(x)
        gathered = [torch.empty_like(features) for _ in range(world)]
        dist.all_gather(gathered, features)
        if puts_own_back:
            gathered[rank] = features
        logits = features @ torch.cat(gathered).t()
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(x)) + rank * len(x))

    train_by(wrapped_network(), batches(4), loss)


def broken():
    train(puts_own_back=False)


def sound():
    train(puts_own_back=True)
