"""A script that is its own launcher: it starts torchrun on itself."""

import subprocess
import sys

import torch
import torch.distributed as dist

if "--rank" not in sys.argv:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    sys.exit(subprocess.run([*torchrun, __file__, "--rank"]).returncode)
dist.init_process_group("gloo")
weight = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weight - 1).pow(2).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
dist.destroy_process_group()
