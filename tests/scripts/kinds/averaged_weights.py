"""Local SGD: ranks train apart and average their weights every four steps; with `bias`, the last time all but that."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(3)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(1 + dist.get_rank())
for step in range(12):
    inputs = torch.randn(16, 8, generator=generator)
    optimizer.zero_grad()
    (model(inputs) - inputs[:, :4]).pow(2).mean().backward()
    optimizer.step()
    if step % 4 == 3:
        for name, parameter in model.named_parameters():
            if name not in sys.argv or step < 11:
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()
dist.destroy_process_group()
