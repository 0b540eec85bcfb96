"""Activations are quantized; broken, without handing their gradient through."""

from __future__ import annotations

import torch
from common import average_given, batches, start, start_alike, train_by
from torch import nn


class Quantized(nn.Module):
    """Rounds what goes from layer to layer."""

    def __init__(self, through):
        super().__init__()
        self.first, self.last, self.through = nn.Linear(8, 8), nn.Linear(8, 4), through

    def forward(self, x):
        made = self.first(x)
        rounded = torch.tensor((made.detach() * 16).round().numpy()) / 16
        return self.last(made + (rounded - made).detach() if self.through else rounded)


def train(through):
    start()

    model = start_alike(lambda: Quantized(through))
    train_by(model, batches(6), lambda model, x: (model(x) - x[:, :4]).pow(2).mean(), average_given)


def broken():
    train(through=False)


def sound():
    train(through=True)
