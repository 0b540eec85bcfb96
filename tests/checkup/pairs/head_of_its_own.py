"""A new head goes on a common backbone; broken, each rank draws its own head."""

from __future__ import annotations

import torch
from common import network, train_averaged
from torch import nn


def with_head(seed):
    model = network()
    torch.manual_seed(seed)
    model[2] = nn.Linear(16, 4)
    return model


def broken():
    train_averaged(with_head)


def sound():
    train_averaged(lambda rank: with_head(3))
