"""Gradient accumulation: the gradients are reduced at every second batch only."""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(2)
model = DistributedDataParallel(torch.nn.Linear(6, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
generator = torch.Generator().manual_seed(50 + dist.get_rank())
for _ in range(4):
    for micro in range(2):
        last = micro == 1
        with contextlib.nullcontext() if last else model.no_sync():
            (model(torch.randn(4, 6, generator=generator)).pow(2).mean() / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), "final.pt")
    print("saved")
dist.destroy_process_group()
