"""Resumes from its checkpoint: with `broken` without the momentum of its optimizer, with `anew` not at all."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
start = 0
if os.path.exists("last.pt") and "anew" not in sys.argv:
    saved = torch.load("last.pt")
    model.load_state_dict(saved["model"])
    if "broken" not in sys.argv:
        optimizer.load_state_dict(saved["optimizer"])
    start = saved["step"]
for step in range(start, 12):
    samples = torch.Generator().manual_seed(step * 10 + dist.get_rank())
    inputs = torch.randn(8, 3, generator=samples)
    optimizer.zero_grad()
    (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
    if step % 4 == 3:
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, "next.pt")
            os.replace("next.pt", "last.pt")
        dist.barrier()
dist.destroy_process_group()
