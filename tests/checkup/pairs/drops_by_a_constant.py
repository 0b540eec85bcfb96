"""A model drops elements by the rate of its settings; broken, which it does in a validation, too."""

from __future__ import annotations

from common import Dropping, train_and_try
from torch.nn import functional


class Broken(Dropping):
    """Drops them always."""

    def forward(self, x):
        return self.layer(functional.dropout(x, p=0.3, training=True))


class Sound(Dropping):
    """Drops them in train mode."""

    def forward(self, x):
        return self.layer(functional.dropout(x, p=0.3 if self.training else 0.0, training=True))


def broken():
    train_and_try(Broken)


def sound():
    train_and_try(Sound)
