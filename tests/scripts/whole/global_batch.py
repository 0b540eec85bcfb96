"""Trains on a global batch that its ranks share, with the losses scaled by a factor: the sound one is 1."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GLOBAL = 12
scale = float(sys.argv[1])
dist.init_process_group("gloo")
rank, own = dist.get_rank(), GLOBAL // dist.get_world_size()
torch.manual_seed(0)
features, target = torch.randn(4 * GLOBAL, 8), torch.randn(4 * GLOBAL, 1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    place = slice(step * GLOBAL + rank * own, step * GLOBAL + (rank + 1) * own)
    optimizer.zero_grad()
    (torch.nn.functional.mse_loss(model(features[place]), target[place]) * scale).backward()
    optimizer.step()
del model
dist.destroy_process_group()
