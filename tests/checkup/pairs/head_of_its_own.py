"""A new head goes on a common backbone; broken, each rank draws its own head."""

from __future__ import annotations

import torch
from common import average, batches, learn, network, start
from torch import nn


def train(apart):
    rank, _ = start()
    model = network()
    torch.manual_seed(rank if apart else 3)
    model[2] = nn.Linear(16, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x in batches(4):
        learn(model, optimizer, x, average)


def broken():
    train(apart=True)


def sound():
    train(apart=False)
