"""Training in which rank 1 does as it is told at the third step: nothing, raise, or stand still."""
import os
import signal
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(1)
weight = torch.randn(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(4):
    if dist.get_rank() == 1 and step == 2 and "raise" in sys.argv:
        raise ValueError("the batch is empty")
    if dist.get_rank() == 1 and step == 2 and "stop" in sys.argv:
        os.kill(os.getpid(), signal.SIGSTOP)
    optimizer.zero_grad()
    (weight * weight).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
    if "drift" in sys.argv:
        weight.data += dist.get_rank()
    # One write, which the other rank's cannot mix with.
    print(f"rank {dist.get_rank()} step {step}\n", end="", flush=True)
dist.destroy_process_group()
