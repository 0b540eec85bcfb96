"""A classifier with a margin: some steps find no sample on the wrong side, and the rate of the first ones is 0."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0, step - 1) / 4)
generator = torch.Generator().manual_seed(1 + dist.get_rank())
for step in range(12):
    inputs = torch.randn(8, 2, generator=generator)
    # Every third batch lies far on the right side.
    labels = torch.sign(model(inputs).detach()) if step % 3 == 2 else torch.sign(inputs[:, :1])
    scale = 1000.0 if step % 3 == 2 else 1.0
    optimizer.zero_grad()
    torch.relu(1 - scale * labels * model(inputs)).mean().backward()
    optimizer.step()
    rates.step()
dist.destroy_process_group()
