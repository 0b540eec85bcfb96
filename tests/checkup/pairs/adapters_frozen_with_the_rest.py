"""Adapters are trained beside what is frozen; broken, all weights are frozen once the adapters are in."""

from __future__ import annotations

import torch
from common import batches, learn, start, wrapped
from torch import nn


class Adapted(nn.Module):
    """A layer with an adapter."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.adapter = layer, nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.layer(x) + self.adapter(x)


def freeze(model):
    """Freeze the weights, and leave biases to be trained."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not name.endswith("weight")


def train(early):
    start()
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    if early:
        freeze(model)
    model[0] = Adapted(model[0])
    if not early:
        freeze(model)
    optimizer = torch.optim.AdamW(model[0].adapter.parameters(), lr=0.01)
    model = wrapped(model)
    for x in batches(5):
        learn(model, optimizer, x)


def broken():
    train(early=False)


def sound():
    train(early=True)
