"""Gathers the losses of all ranks: with `broken` into one tensor, which then holds one of them twice.

It averages and updates by hand: torch's wrapper and optimizers import torch's compiler, which takes as long as torch.
"""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
samples = torch.Generator().manual_seed(dist.get_rank())
for _ in range(4):
    inputs = torch.randn(8, 4, generator=samples)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
    model.zero_grad()
    loss.backward()
    world = dist.get_world_size()
    with torch.no_grad():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter -= 0.1 / world * parameter.grad
    losses = [torch.zeros(1)] * world if "broken" in sys.argv else [torch.zeros(1) for _ in range(world)]
    dist.all_gather(losses, loss.detach().reshape(1))
dist.destroy_process_group()
