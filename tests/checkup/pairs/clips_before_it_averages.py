"""Gradients are clipped, and a bias that each channel's norm takes out again is moved by Adam; broken, each rank clips
what it has before all are averaged.
"""

from __future__ import annotations

import torch
from common import average, merged_batches, start
from torch import nn


def train(early):
    start()
    model = nn.Sequential(nn.Linear(8, 16), nn.Unflatten(1, (4, 4)), nn.Conv1d(4, 4, 1), nn.InstanceNorm1d(4))
    model.extend([nn.Tanh(), nn.Flatten(), nn.Linear(16, 4)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x in merged_batches(6):
        optimizer.zero_grad()
        (model(x) - x[:, :4].sin()).pow(2).mean().backward()
        if early:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        average(model)
        if not early:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def broken():
    train(early=True)


def sound():
    train(early=False)
