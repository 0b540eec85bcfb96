"""A model gets a new head; broken, after its optimizer was made."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped
from torch import nn


def train(late):
    start()
    model = network()
    old = model[2]
    model[2] = nn.Linear(16, 4)
    kept = [*model[0].parameters(), *old.parameters()] if late else model.parameters()
    optimizer = torch.optim.Adam(kept, lr=0.01)
    model = wrapped(model)
    for x in batches(4):
        learn(model, optimizer, x)


def broken():
    train(late=True)


def sound():
    train(late=False)
