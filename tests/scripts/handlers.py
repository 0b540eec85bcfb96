"""Signal handlers, an excepthook and atexit of its own, another folder, and an uncaught exception in the end."""

import atexit
import os
import signal
import sys

import torch
import torch.distributed as dist

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *_: None)
sys.excepthook = lambda kind, error, trace: print("hook:", kind.__name__, error)
atexit.register(print, "at exit")
os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
dist.init_process_group("gloo")
torch.manual_seed(13)
weight = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    ((weight - step) ** 2).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
torch.save(weight, f"final-{dist.get_rank()}.pt")
dist.destroy_process_group()
raise ValueError("in the end")
