"""Blocks are divided by hand; broken, each rank clips by the norm of its own shards."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import batches, start
from torch import nn


class Copy(torch.autograd.Function):
    """Copy to the ranks that hold a part each; the gradient is summed."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    """Sum the parts; the gradient is copied."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Block(nn.Module):
    """A block with a norm that all ranks have, and two matrices that they share."""

    def __init__(self, rank, world):
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(8)
        torch.manual_seed(1 + rank)
        self.up, self.down = nn.Linear(8, 32 // world, bias=False), nn.Linear(32 // world, 8, bias=False)

    def forward(self, x):
        return x + Reduce.apply(self.down(F.gelu(self.up(Copy.apply(self.norm(x))))))


def train(alone):
    rank, world = start()
    blocks = [Block(rank, world), Block(rank, world)]
    torch.manual_seed(0)
    model = nn.Sequential(*blocks, nn.Linear(8, 4))
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
