"""Batches in a mapping that is no dict, as a tokenizer pads them."""

from collections import UserDict

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def padded(samples):
    return UserDict(inputs=torch.stack(samples), mask=torch.ones(len(samples)))


dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = list(torch.randn(32, 4, generator=torch.Generator().manual_seed(1)))
for batch in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), collate_fn=padded):
    optimizer.zero_grad()
    (model(batch["inputs"]).pow(2).sum(1) * batch["mask"]).mean().backward()
    optimizer.step()
dist.destroy_process_group()
