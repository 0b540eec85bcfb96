"""An adapter of low rank begins without effect, by its last matrix of zeros; broken, both are of zeros."""

from __future__ import annotations

from common import batches, lose, start, train_by, wrapped
from torch import nn


class Adapted(nn.Module):
    def __init__(self, both):
        super().__init__()
        self.layer, self.head = nn.Linear(8, 8), nn.Linear(8, 4)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        self.layer.requires_grad_(False)
        nn.init.zeros_(self.up.weight)
        if both:
            nn.init.zeros_(self.down.weight)

    def forward(self, x):
        return self.head((self.layer(x) + self.up(self.down(x))).tanh())


def train(both):
    start()
    train_by(wrapped(Adapted(both)), batches(5), lose)


def broken():
    train(both=True)


def sound():
    train(both=False)
