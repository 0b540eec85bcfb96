"""A model freezes its first layer in train(); broken, that is called after a wrapper was made, which then reduces
nothing, and raises an error at the second step.
"""

from __future__ import annotations

import torch
from common import Staged, batches, learn, start, wrapped


def train(late, steps):
    start()
    model = Staged()
    if not late:
        model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = wrapped(model)
    model.train()
    for x in batches(steps):
        learn(model, optimizer, x)


def broken():
    train(late=True, steps=1)


def sound():
    train(late=False, steps=4)
