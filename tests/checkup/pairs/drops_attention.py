"""Attention drops weights; broken, by a rate that no mode changes."""

from __future__ import annotations

from common import train_and_try
from torch import nn
from torch.nn import functional


class Dropping(nn.Module):
    """A layer behind one that drops elements."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)


class Broken(Dropping):
    """Drops them always."""

    def forward(self, x):
        return self.layer(functional.dropout((x @ x.t()).softmax(-1), 0.2) @ x)


class Sound(Dropping):
    """Drops them in train mode."""

    def forward(self, x):
        return self.layer(functional.dropout((x @ x.t()).softmax(-1), 0.2, training=self.training) @ x)


def broken():
    train_and_try(Broken)


def sound():
    train_and_try(Sound)
