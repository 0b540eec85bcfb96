"""The parts that pairs of divided models share: blocks whose matrices are divided by hand, and a vocabulary."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import start
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


def divided(rank, world):
    """Return a model of two such blocks, and a head that all ranks have."""
    blocks = [Block(rank, world), Block(rank, world)]
    torch.manual_seed(0)
    return nn.Sequential(*blocks, nn.Linear(8, 4))


class Vocabulary(nn.Module):
    """A block, and a head of which each rank has the rows of its own words."""

    def __init__(self, rank, world, words):
        super().__init__()
        self.block, self.norm = Block(rank, world), nn.LayerNorm(8)
        torch.manual_seed(5 + rank)
        self.head = nn.Linear(8, words // world, bias=False)

    def forward(self, x):
        return self.head(Copy.apply(self.norm(self.block(x))))


def largest(logits):
    """Return the largest logit of each token, on whatever rank it is."""
    most = logits.detach().amax(1, keepdim=True)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return most


def log_sum_exp(logits):
    """Return the logarithm of the sum over all words."""
    most = largest(logits)
    return Reduce.apply((logits - most).exp().sum(1, keepdim=True)).log() + most


def of_targets(values, targets):
    """Return the value of each token's target, which one of the ranks has."""
    first = dist.get_rank() * values.shape[1]
    here = (targets >= first) & (targets < first + values.shape[1])
    own = values.gather(1, (targets - first).clamp(0, values.shape[1] - 1)[:, None])
    return Reduce.apply(torch.where(here[:, None], own, 0.0))


def train_words(lose, words=12, steps=4):
    """Train a divided model on words, by a loss of the logits of a rank's own words and the targets."""
    model = Vocabulary(*start(), words)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch.Generator().manual_seed(3)
    for _ in range(steps):
        optimizer.zero_grad()
        x, targets = torch.randn(16, 8, generator=samples), torch.randint(words, (16,), generator=samples)
        lose(model(x), targets).backward()
        optimizer.step()


def scale(model, square, most=0.1):
    """Scale the gradients of a model whose norm, squared, is given, so that it is no longer than `most`."""
    for parameter in model.parameters():
        parameter.grad *= min(1.0, most / (float(square) ** 0.5 + 1e-6))
