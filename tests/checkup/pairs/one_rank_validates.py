"""Rank 0 validates; broken, it alone trains on in eval mode."""

from __future__ import annotations

import torch
from common import batches, learn, lose, start, wrapped
from torch import nn


def train(back):
    rank, _ = start()
    model = wrapped(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, x in enumerate(batches(5)):
        learn(model, optimizer, x)
        if rank == 0 and number == 1:
            model.eval()
            with torch.no_grad():
                lose(model.module, x)
            model.train(back)


def broken():
    train(back=False)


def sound():
    train(back=True)
