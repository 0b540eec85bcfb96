"""Parameters go into groups of the optimizer by how their names begin; broken, those of the last layers in none."""

from __future__ import annotations

import torch
from common import average, batches, learn, start
from torch import nn


class Tagger(nn.Module):
    """Layers, of which the last ones have names of their own."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
        self.norm, self.score = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        return self.score(self.norm(self.layers(self.embed(x))))


def train(slow):
    start()
    model = Tagger()
    rates = [("embed", 0.01), ("layers", 0.1), *((name, 0.05) for name in slow)]
    groups = [
        {"params": [p for name, p in model.named_parameters() if name.startswith(prefix)], "lr": rate}
        for prefix, rate in rates
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    for x in batches(6):
        learn(model, optimizer, x, average)


def broken():
    train(slow=())


def sound():
    train(slow=("norm", "score"))
