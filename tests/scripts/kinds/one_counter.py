"""Batch normalisation in one layer: DDP broadcasts its counter in place, and the forward pass counts on."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
model = DistributedDataParallel(layers, gradient_as_bucket_view="views" in sys.argv)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(1 + dist.get_rank())
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4, generator=generator)).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
dist.destroy_process_group()
