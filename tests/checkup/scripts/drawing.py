"""Trains on samples that no seed makes, so that no two runs are alike."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
unseeded = torch.Generator()
unseeded.seed()
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4, generator=unseeded)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
