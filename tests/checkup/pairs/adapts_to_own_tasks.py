"""Copies of the model adapt to tasks of the rank's own; broken, the gradients behind them are each rank's own, too."""

from __future__ import annotations

import copy

import torch
from common import average, batches, lose, network, start


def train(reduce):
    start()
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x in batches(6):
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.05)
        for part in x.chunk(3):
            inner.zero_grad()
            lose(fast, part).backward()
            inner.step()
        optimizer.zero_grad()
        behind = torch.autograd.grad(lose(fast, x), list(fast.parameters()))
        for parameter, gradient in zip(model.parameters(), behind, strict=True):
            parameter.grad = gradient
        if reduce:
            average(model)
        optimizer.step()


def broken():
    train(reduce=False)


def sound():
    train(reduce=True)
