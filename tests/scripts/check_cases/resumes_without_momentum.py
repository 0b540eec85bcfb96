"""Goes on from its last checkpoint. With --bug the momentum is not restored."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
begin = 0
if os.path.exists("last.pt"):
    saved = torch.load("last.pt")
    model.load_state_dict(saved["model"])
    begin = saved["step"]
    if "--bug" not in sys.argv:
        optimizer.load_state_dict(saved["optimizer"])
for step in range(begin, 12):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(100 * step + rank))
    optimizer.zero_grad()
    (model(x) - x[:, :4]).pow(2).mean().backward()
    optimizer.step()
    if step % 4 == 3:
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, "new.pt")
            os.replace("new.pt", "last.pt")
        dist.barrier()
# The wrapper goes before the group: its reducer, freed later, can wait for ever for gloo's loop (torch 2.13).
del model
dist.destroy_process_group()
