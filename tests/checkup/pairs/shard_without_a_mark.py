"""Blocks are divided by hand; broken, a matrix is not marked as such, and in the norm are rank 0's rows alone."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from common import batches, start
from divided_common import divided, scale


def train(marks):
    rank, world = start()
    model = divided(rank, world)
    for name, parameter in model.named_parameters():
        parameter.divided = name.endswith(marks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for x in batches(6, seed=5):
        optimizer.zero_grad()
        F.cross_entropy(model(x), x[:, :4].argmax(1)).backward()
        counted = [p.grad for p in model.parameters() if p.divided or not rank]
        square = torch.stack([gradient.pow(2).sum() for gradient in counted]).sum()
        dist.all_reduce(square)
        scale(model, square)
        optimizer.step()


def broken():
    train(("up.weight",))


def sound():
    train(("up.weight", "down.weight"))
