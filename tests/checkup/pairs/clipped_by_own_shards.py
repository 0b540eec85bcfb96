"""Blocks are divided by hand; broken, each rank clips by the norm of its own shards."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import batches, start
from divided_common import divided as divided_model


def train(alone):
    model = divided_model(*start())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x in batches(5, seed=5):
        optimizer.zero_grad()
        F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
        squares = {name: p.grad.pow(2).sum() for name, p in model.named_parameters()}
        divided = sum(square for name, square in squares.items() if "up" in name or "down" in name)
        whole = sum(square for name, square in squares.items() if not ("up" in name or "down" in name))
        if not alone:
            dist.all_reduce(divided)
        for p in model.parameters():
            p.grad *= min(1.0, 0.1 / float((divided + whole).sqrt()))
        optimizer.step()


def broken():
    train(alone=True)


def sound():
    train(alone=False)
