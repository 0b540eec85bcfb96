"""A body and its head are wrapped apart; broken, the optimizer has what the first wrapper holds."""

from __future__ import annotations

import torch
from common import batches, lose, start, wrapped
from torch import nn


def train(parts):
    start()
    body, head = wrapped(nn.Sequential(nn.Linear(8, 16), nn.Tanh())), wrapped(nn.Linear(16, 4))
    optimizer = torch.optim.SGD([p for part in (body, head)[:parts] for p in part.parameters()], lr=0.1)
    for x in batches(6):
        optimizer.zero_grad()
        lose(lambda x: head(body(x)), x).backward()
        optimizer.step()


def broken():
    train(parts=1)


def sound():
    train(parts=2)
