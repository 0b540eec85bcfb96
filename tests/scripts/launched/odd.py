"""Training in which rank 1 does as it is told at the third step: raise, stand still, drift; or all ranks leak."""

import os
import signal
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(1)
weight = torch.randn(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
kept = []
for step in range(24 if "leak" in sys.argv else 4):
    if dist.get_rank() == 1 and step == 2 and "raise" in sys.argv:
        raise ValueError("the batch is empty")
    if dist.get_rank() == 1 and step == 2 and "stop" in sys.argv:
        os.kill(os.getpid(), signal.SIGSTOP)
    optimizer.zero_grad()
    (weight * weight).sum().backward()
    dist.all_reduce(weight.grad)
    if "leak" in sys.argv:
        kept.append(weight.grad.repeat(64))
    optimizer.step()
    if "drift" in sys.argv:
        weight.data += dist.get_rank()
    # One write, which the other rank's cannot mix with.
    print(f"rank {dist.get_rank()} step {step}\n", end="", flush=True)
dist.destroy_process_group()
