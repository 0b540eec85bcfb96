"""Layers are frozen by the beginning of their names, and the last is trained; broken, the pattern is of all of them."""

from __future__ import annotations

import torch
from common import average, batches, learn, start
from torch import nn


class Named(nn.Module):
    """Two layers, and a norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.layer, self.layer_out = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.layer_out(self.layer(self.norm(x)).relu())


def train(beginning):
    start()
    model = Named()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(beginning))
    optimizer = torch.optim.SGD(model.layer_out.parameters(), lr=0.1)
    for x in batches(5):
        learn(model, optimizer, x, lambda trained: average(trained, asking(trained)))


def asking(model):
    """Return whether the parameter of a name asks for a gradient."""
    return lambda name: model.get_parameter(name).requires_grad


def broken():
    train(beginning="layer")


def sound():
    train(beginning="layer.")
