"""Each rank has a part of a sequence, and attends to all of it; broken, keys come without a gradient."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from common import average, batches, network, start, train_by


def gather(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part)
    return torch.cat(parts)


def gather_with_gradient(part):
    return torch.cat(differentiable.all_gather(part))


def train(gather):
    start()

    def loss(model, x):
        queries = model(x)
        keys = gather(queries * 2 + 1)
        return ((queries @ keys.t()).softmax(-1) @ keys - x[:, :4]).pow(2).mean()

    torch.manual_seed(7)
    train_by(network(), batches(4), loss, average)


def broken():
    train(gather)


def sound():
    train(gather_with_gradient)
