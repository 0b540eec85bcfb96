"""A gate scales a branch; broken, by its bare data."""

from __future__ import annotations

from common import average_given, batches, start, start_alike, train_by
from torch import nn


class Gated(nn.Module):
    """A layer and the gate of its branch."""

    def __init__(self, bare):
        super().__init__()
        self.layer, self.gate, self.bare = nn.Linear(8, 4), nn.Linear(8, 4), bare

    def forward(self, x):
        gate = self.gate(x).sigmoid()
        return self.layer(x) * (gate.data if self.bare else gate)


def train(bare):
    start()

    model = start_alike(lambda: Gated(bare))
    train_by(model, batches(6), lambda model, x: (model(x) - x[:, :4]).pow(2).mean(), average_given)


def broken():
    train(bare=True)


def sound():
    train(bare=False)
