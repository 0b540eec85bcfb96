"""Activations are computed again in the backward pass, once for each block, and losses are gathered for a log."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Counts how often it is computed."""

    count = 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        Block.count += 1
        return self.layer(x).tanh()


class Deep(nn.Module):
    """Two blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(Deep())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = (model(torch.randn(4, 8)) - 1).pow(2).mean()
    seen = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
    dist.all_gather(seen, loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert Block.count == 4 * (step + 1), Block.count
dist.destroy_process_group()
