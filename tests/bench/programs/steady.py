"""Training of which every step takes about 10 ms, timed by the program itself: loader, DDP, optimizer.

The three linear layers are one and the same, so that a step has one bucket, and one collective.
With `toggled`, the agent sees every second step only, so that two neighbours are under the same conditions.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from breakrank_agent.agent import agent as probe

STEPS = int(os.environ["BREAKRANK_STEPS"])
WIDTH, BATCH = 512, 192
#: The first steps do more than the others: torch imports, and the agent looks for the outermost module.
SETTLING = 6


def always():
    _begin(lambda number: None)


def toggled():
    agent = probe._agent

    def toggle(number):
        agent.recorder.over = bool(number % 2)

    _begin(toggle)
    agent.recorder.over = False


def _begin(before):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    _train(before)
    dist.destroy_process_group()


def _train(before):
    """Write [wall seconds, this thread's processor seconds] of every settled step to steps.json."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()] * 3
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(BATCH, WIDTH)), batch_size=BATCH)
    taken = []
    for number in range(STEPS):
        if number >= SETTLING:
            before(number)
        wall, processor = time.perf_counter(), time.thread_time()
        ((batch,),) = loader
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        taken.append([time.perf_counter() - wall, time.thread_time() - processor])
    Path("steps.json").write_text(json.dumps(taken[SETTLING:]))
