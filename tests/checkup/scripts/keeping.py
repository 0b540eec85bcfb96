"""Keeps the loss of each step: with `broken` as a tensor, with the graph behind it."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(20):
    inputs = torch.full((8, 4), float(step + dist.get_rank()) / 20)
    loss = (model(inputs) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss if "broken" in sys.argv else loss.item())
dist.destroy_process_group()
