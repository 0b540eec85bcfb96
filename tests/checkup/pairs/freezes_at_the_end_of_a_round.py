"""A backbone freezes a layer in train(), and its wrapper looks for unused parameters; broken, a round ends with it."""

from __future__ import annotations

import torch
from common import KEPT, Staged, batches, learn, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Headed(nn.Module):
    """A backbone and a head."""

    def __init__(self):
        super().__init__()
        self.backbone, self.head = Staged(), nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.backbone(x))


def train(late):
    start()
    model = DistributedDataParallel(Headed(), find_unused_parameters=True)
    KEPT.append(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        if not late:
            model.train()
        for x in batches(2):
            learn(model, optimizer, x)
        if late:
            model.train()


def broken():
    train(late=True)


def sound():
    train(late=False)
