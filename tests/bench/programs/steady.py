"""Training of which every step takes about 10 ms, timed by the program itself: loader, DDP, optimizer."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ["BREAKRANK_STEPS"])
WIDTH, BATCH = 512, 192


def main():
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()


def train():
    """Write [wall seconds, processor seconds] of every step to steps.json."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()] * 3
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(BATCH, WIDTH)), batch_size=BATCH)
    taken = []
    for _ in range(STEPS):
        began = time.perf_counter(), time.process_time()
        ((batch,),) = loader
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        taken.append([time.perf_counter() - began[0], time.process_time() - began[1]])
    Path("steps.json").write_text(json.dumps(taken))
