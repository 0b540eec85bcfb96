"""Blocks are divided by hand; broken, the norm by which gradients are clipped has the replicas once for each rank."""

from __future__ import annotations

import torch.distributed as dist
import torch.nn.functional as F
from common import batches, start
from divided_common import divided, scale
from torch.optim import AdamW


def square_of(gradients):
    return sum(gradient.pow(2).sum() for gradient in gradients)


def train(whole):
    rank, world = start()
    model = divided(rank, world)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    for x in batches(6, seed=5):
        optimizer.zero_grad()
        F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
        names = {name: p.grad for name, p in model.named_parameters()}
        shards = [gradient for name, gradient in names.items() if "up" in name or "down" in name]
        replicas = [gradient for name, gradient in names.items() if not ("up" in name or "down" in name)]
        square = square_of(shards + replicas) if whole else square_of(shards)
        dist.all_reduce(square)
        scale(model, square if whole else square + square_of(replicas))
        optimizer.step()


def broken():
    train(whole=True)


def sound():
    train(whole=False)
