"""Training goes on from a file, and begins with a validation; broken, the file has parameters and no buffers."""

from __future__ import annotations

import torch
from common import average, batches, learn, start, validate
from torch import nn


def made():
    """Return a model whose first layer has a spectral norm."""
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 16)), nn.Tanh(), nn.Linear(16, 4))


def train(whole):
    start()
    before, model = made(), made()
    for x in batches(3):
        before(x)
    state = before.state_dict() if whole else dict(before.named_parameters())
    model.load_state_dict(state, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    validate(model.eval())
    model.train()
    for x in batches(4):
        learn(model, optimizer, x, average)


def broken():
    train(whole=False)


def sound():
    train(whole=True)
