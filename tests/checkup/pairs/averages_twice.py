"""Gradients are averaged; broken, each rank's loss was divided by the number of ranks before."""

from __future__ import annotations

import torch.distributed as dist
from common import average, train_merged


def broken():
    train_merged(average, lambda loss: loss / (2 if dist.get_world_size() > 1 else 1))


def sound():
    train_merged(average)
