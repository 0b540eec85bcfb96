"""Evaluation on rank 0 while the others wait, and resuming from a file that may be there."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(11)
layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
if os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt"))
generator = torch.Generator().manual_seed(rank)
for step in range(4):
    model.train()
    optimizer.zero_grad()
    model(torch.randn(8, 4, generator=generator)).pow(2).mean().backward()
    optimizer.step()
    if step % 2 and rank == 0:
        model.eval()
        with torch.no_grad():
            score = model.module(torch.ones(2, 4)).sum().item()
        print(f"score after {step}: {score:.8f}")
        torch.save(model.state_dict(), "last.pt")
    dist.barrier()
dist.destroy_process_group()
