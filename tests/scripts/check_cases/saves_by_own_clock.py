"""A checkpoint every so many seconds, with collectives in it. With --bug each rank goes by its own clock and interval.

With --alike the collectives of a checkpoint have the shape of those of a step.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn

BUG, ALIKE = "--bug" in sys.argv, "--alike" in sys.argv


def is_due(last, every):
    due = torch.tensor(float(time.monotonic() - last >= every))
    if not BUG:
        dist.broadcast(due, src=0)
    return bool(due)


def save(model, seen):
    total = torch.full((4, 16), float(seen)) if ALIKE else torch.tensor(float(seen))
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        torch.save({"seen": float(total.max()), "model": model.state_dict()}, "last.pt")


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(31)
model = nn.Linear(16, 4, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = torch.Generator().manual_seed(rank)
last, every = time.monotonic(), 3600 * rank
for step in range(12):
    x = torch.randn(8, 16, generator=samples)
    optimizer.zero_grad()
    (model(x) - x[:, :4]).pow(2).mean().backward()
    dist.all_reduce(model.weight.grad)
    model.weight.grad /= world
    optimizer.step()
    if is_due(last, every):
        save(model, 8 * (step + 1))
        last = time.monotonic()
dist.destroy_process_group()
