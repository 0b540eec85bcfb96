"""Attention drops weights; broken, by a rate that no mode changes."""

from __future__ import annotations

from common import Dropping, train_and_try
from torch.nn import functional


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
