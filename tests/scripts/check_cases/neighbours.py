"""Each rank passes its activations on and takes those of the one before. With --bug all of them send first."""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    ours, theirs = torch.ones(64, 8), torch.empty(64, 8)
    if "--bug" in sys.argv or rank % 2 == 0:
        dist.send(ours, (rank + 1) % world)
        dist.recv(theirs, (rank - 1) % world)
    else:
        dist.recv(theirs, (rank - 1) % world)
        dist.send(ours, (rank + 1) % world)
    optimizer.zero_grad()
    model(theirs).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
