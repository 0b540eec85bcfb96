"""A layer is made as wide as its input; broken, the first pass makes it, which is after the model was wrapped."""

from __future__ import annotations

import torch
from common import batches, learn, start, wrapped
from torch import nn


class Fitted(nn.Module):
    """A layer, and a second one that is made at the first pass."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), None

    def forward(self, x):
        x = self.first(x).tanh()
        if self.second is None:
            self.second = nn.Linear(x.shape[1], 4)
        return self.second(x)


def train(early):
    rank, _ = start()
    torch.manual_seed(rank)
    model = Fitted()
    if early:
        model(torch.ones(1, 8))
    model = wrapped(model)
    with torch.no_grad():
        model(torch.ones(1, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x)


def broken():
    train(early=False)


def sound():
    train(early=True)
