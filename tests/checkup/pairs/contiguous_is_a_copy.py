"""Gradients are made contiguous to be sent; broken, what was averaged is not copied back where that was a copy."""

from __future__ import annotations

import torch.distributed as dist
from common import start_alike, train_with
from torch import nn


class Tied(nn.Module):
    """A layer whose weight is used turned, so that its gradient lies turned in memory."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(nn.Linear(8, 4, bias=False).weight.detach().t().contiguous().t())

    def forward(self, x):
        return x @ self.weight.t()


def reduce_each(model, copies_back):
    for parameter in model.parameters():
        sent = parameter.grad.contiguous()
        dist.all_reduce(sent)
        sent /= dist.get_world_size()
        if copies_back:
            parameter.grad.copy_(sent)


def train(copies_back):
    train_with(start_alike(Tied), lambda model, rank: reduce_each(model, copies_back))


def broken():
    train(copies_back=False)


def sound():
    train(copies_back=True)
