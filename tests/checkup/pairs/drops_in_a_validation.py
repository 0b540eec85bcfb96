"""A layer drops elements by a function; broken, whatever the mode is."""

from __future__ import annotations

from common import Dropping, train_and_try
from torch.nn import functional


class Broken(Dropping):
    """Drops them always."""

    def forward(self, x):
        return self.layer(functional.dropout(x, 0.3))


class Sound(Dropping):
    """Drops them in train mode."""

    def forward(self, x):
        return self.layer(functional.dropout(x, 0.3, self.training))


def broken():
    train_and_try(Broken)


def sound():
    train_and_try(Sound)
