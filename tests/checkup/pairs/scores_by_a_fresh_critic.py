"""A critic scores samples before it is trained; broken, it was put into eval mode at once."""

from __future__ import annotations

import torch
from common import average, batches, learn, start
from torch import nn


class Critic(nn.Module):
    """Convolutions with a spectral norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.utils.spectral_norm(nn.Conv1d(1, 8, 3, padding=1))
        self.last = nn.utils.spectral_norm(nn.Linear(64, 4))

    def forward(self, x):
        return self.last(self.first(x[:, None]).relu().flatten(1))


def train(early):
    start()
    critic = Critic()
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
    critic.train(not early)
    with torch.no_grad():
        print(f"{sum(float(critic(x).mean()) for x in batches(2)):.3f}")
    critic.train()
    for x in batches(4):
        learn(critic, optimizer, x, average)


def broken():
    train(early=True)


def sound():
    train(early=False)
