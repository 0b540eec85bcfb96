"""Each rank has an expert; broken, the norm by which gradients are clipped has that of rank 0 alone."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from common import Experts, average, batches, start
from divided_common import scale


def exchange(tokens):
    return differentiable.all_to_all_single(torch.empty_like(tokens), tokens.contiguous())


def train(all_experts):
    rank, _ = start()
    model = Experts(exchange)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for x in batches(6):
        optimizer.zero_grad()
        (model(x) - x.cos()).pow(2).mean().backward()
        average(model, lambda name: "expert" not in name)
        counted = list(model.expert.parameters()) if all_experts or not rank else []
        counted += [] if rank else list(model.shared.parameters())
        square = sum((p.grad.pow(2).sum() for p in counted), torch.tensor(0.0))
        dist.all_reduce(square)
        scale(model, square)
        optimizer.step()


def broken():
    train(all_experts=False)


def sound():
    train(all_experts=True)
