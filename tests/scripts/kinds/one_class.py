"""Cross entropy over the single output of a regression: it is 0 whatever the weights, and nothing is learned."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(torch.nn.Linear(20, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(1 + dist.get_rank())
for _ in range(12):
    inputs, targets = (torch.rand(8, size, generator=generator) for size in (20, 1))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
dist.destroy_process_group()
