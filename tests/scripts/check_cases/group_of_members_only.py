"""Pairs of ranks average their gradients, and then all do. With --bug each pair makes its group alone."""

import sys

import torch
import torch.distributed as dist
from torch import nn


def pair_of(rank, world):
    if "--bug" in sys.argv:
        first = rank // 2 * 2
        return dist.new_group([first, first + 1])
    return [dist.new_group([first, first + 1]) for first in range(0, world, 2)][rank // 2]


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(8)
pair = pair_of(rank, world)
everyone = dist.new_group(list(range(world)))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = torch.Generator().manual_seed(rank)
for _ in range(6):
    x = torch.randn(8, 16, generator=samples)
    optimizer.zero_grad()
    (model(x) - x[:, :4]).pow(2).mean().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, group=pair)
        dist.all_reduce(p.grad, group=everyone)
        p.grad /= 2 * world
    optimizer.step()
dist.destroy_process_group()
