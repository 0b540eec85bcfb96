"""Ranks with children that have all of their connections, as every forked process has them."""

from __future__ import annotations

import os
import signal

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from breakrank_agent import step

STEPS = int(os.environ["BREAKRANK_STEPS"])


def leaves_workers():
    """Reduce the batches that a worker of a loader loads."""
    dist.init_process_group("gloo")
    dist.barrier()
    for (batch,) in DataLoader(TensorDataset(torch.ones(2 * STEPS, 4)), batch_size=2, num_workers=1):
        dist.all_reduce(batch)
        step()
    dist.destroy_process_group()


def leaves_a_child():
    """Reduce with a child beside it that waits to be ended."""
    dist.init_process_group("gloo")
    dist.barrier()
    child = os.fork()
    if child == 0:
        signal.pause()
    for _ in range(STEPS):
        dist.all_reduce(torch.ones(4))
        step()
    os.kill(child, signal.SIGKILL)
    dist.destroy_process_group()
