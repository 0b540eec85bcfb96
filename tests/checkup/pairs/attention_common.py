"""The part that pairs of a divided attention share: each rank has some of the heads, and Adam trains them.

The key part of the bias has no effect, so that its gradient is rounding, which Adam makes steps of.
"""

from __future__ import annotations

import torch
from common import start
from divided_common import Copy, Reduce
from torch import nn

#: The width of the model, and of a head.
WIDTH, HEAD = 8, 2


def own_rows(whole, rank, world, of=1):
    """Return this rank's part of a tensor's rows, which are `of` blocks, each divided."""
    return torch.cat([block.chunk(world)[rank] for block in whole.chunk(of)])


class Attention(nn.Module):
    """Attention with a bias, whose scores are divided by the root of what `scale` makes of this rank's width."""

    def __init__(self, rank, world, scale):
        super().__init__()
        self.norm, self.world, self.scale = nn.LayerNorm(WIDTH), world, scale
        taken, given = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.weight = nn.Parameter(own_rows(taken.weight.detach(), rank, world, of=3).clone())
        self.bias = nn.Parameter(own_rows(taken.bias.detach(), rank, world, of=3).clone())
        self.out = nn.Parameter(own_rows(given.weight.detach().t(), rank, world).t().clone())

    def forward(self, x):
        q, k, v = nn.functional.linear(Copy.apply(self.norm(x)), self.weight, self.bias).chunk(3, -1)
        q, k, v = (each.unflatten(-1, (-1, HEAD)).transpose(1, 2) for each in (q, k, v))
        scores = q @ k.transpose(2, 3) / self.scale(WIDTH // self.world) ** 0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x + Reduce.apply(nn.functional.linear(mixed, self.out))


def train_attention(scale, steps=8):
    """Train two such layers and a head."""
    rank, world = start()
    model = nn.Sequential(Attention(rank, world, scale), Attention(rank, world, scale), nn.Linear(WIDTH, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    samples = torch.Generator().manual_seed(3)
    for _ in range(steps):
        x = torch.randn(4, 6, WIDTH, generator=samples)
        optimizer.zero_grad()
        (model(x) - x[..., :4].sin()).pow(2).mean().backward()
        optimizer.step()
