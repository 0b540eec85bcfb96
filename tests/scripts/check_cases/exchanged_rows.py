"""Experts that send each other rows. With --bug the last rank has fewer of them at step 3, and its peers do not know.

--lists: by a list of tensors; --uneven: with split sizes; else in even parts of one tensor.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
expert = nn.Linear(8, 8)
optimizer = torch.optim.SGD(expert.parameters(), lr=0.01)
for step in range(1, 6):
    fewer = int("--bug" in sys.argv and step == 3 and rank == world - 1)
    if "--lists" in sys.argv:
        got = [torch.empty(6 - fewer, 8) for _ in range(world)]
        dist.all_to_all(got, [torch.ones(6 - fewer, 8) for _ in range(world)])
    elif "--uneven" in sys.argv:
        sent = [4 + (rank + other) % 2 for other in range(world)]
        expected = [4 + (other + rank) % 2 - fewer * (other == 0) for other in range(world)]
        got = torch.empty(sum(expected), 8)
        dist.all_to_all_single(got, torch.ones(sum(sent), 8), expected, sent)
        got = [got]
    else:
        got = torch.empty(12 - 2 * fewer, 8)
        dist.all_to_all_single(got, torch.ones(12 - 2 * fewer, 8))
        got = [got]
    optimizer.zero_grad()
    expert(torch.cat(got)[:4]).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
