"""A validation measures where training begins; broken, before a pass in train mode has fitted the spectral norm."""

from __future__ import annotations

from common import batches, learn, start, validate, wrapped
from torch import nn, optim


def train(fitted):
    start()
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 16)), nn.Tanh(), nn.Linear(16, 4))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    if fitted:
        validate(model.train())
    model = wrapped(model)
    for _ in range(2):
        validate(model.eval())
        model.train()
        for x in batches(3):
            learn(model, optimizer, x)


def broken():
    train(fitted=False)


def sound():
    train(fitted=True)
