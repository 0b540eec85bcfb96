"""A model is compiled as one graph, and validated; what is scripted finds torch's functions as they are."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


class Dropping(nn.Module):
    """Drops elements by a module and by a function."""

    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(8, 4), nn.Dropout(0.1)

    def forward(self, x):
        return self.layer(functional.dropout(self.dropout(x), 0.1, self.training))


dist.init_process_group("gloo")
torch.manual_seed(0)
model = Dropping()
compiled = torch.compile(model, fullgraph=True, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model.train()
    optimizer.zero_grad()
    compiled(torch.randn(4, 8)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    model.eval()
    with torch.no_grad():
        compiled(torch.randn(4, 8))
torch.jit.script(Dropping())
dist.destroy_process_group()
