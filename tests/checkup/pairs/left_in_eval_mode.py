"""Training is interrupted by a validation; broken, the model stays in eval mode after it."""

from __future__ import annotations

import torch
from common import batches, learn, lose, start, wrapped
from torch import nn


def train(back):
    start()
    model = wrapped(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        if back or epoch == 0:
            model.train()
        for x in batches(2):
            learn(model, optimizer, x)
        model.eval()
        with torch.no_grad():
            lose(model.module, x)


def broken():
    train(back=False)


def sound():
    train(back=True)
