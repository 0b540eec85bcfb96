"""Gradients are averaged by hand, and buffers before a validation; broken, buffers never are."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import average, batches, lose, normed, start, train_by


def bring_into_line(model):
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()


def train(buffers_too):
    start()
    model = normed()
    for _ in range(2):
        train_by(model, batches(4), lose, average)
        if buffers_too:
            bring_into_line(model)
        model.eval()
        with torch.no_grad():
            lose(model, torch.ones(4, 8))
        model.train()


def broken():
    train(buffers_too=False)


def sound():
    train(buffers_too=True)
