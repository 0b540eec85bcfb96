"""Losses are kept for a plot: without a graph, or, with the argument `graphs`, each with all that led to it."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(1 + dist.get_rank())
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4, generator=generator)).pow(2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss if "graphs" in sys.argv else loss.detach())
dist.destroy_process_group()
