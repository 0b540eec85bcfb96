"""Blocks are divided by hand; broken, a head adds up once more what the last block has added up."""

from __future__ import annotations

import torch
from common import batches, start, train_by
from divided_common import Block, Reduce
from torch import nn


class Model(nn.Module):
    """Two blocks, and a head that all ranks have."""

    def __init__(self, again):
        super().__init__()
        rank, world = start()
        self.first, self.last, self.again = Block(rank, world), Block(rank, world), again
        torch.manual_seed(0)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.last(self.first(x))
        return self.head(Reduce.apply(x) if self.again else x)


def train(again):
    train_by(Model(again), batches(4, seed=5), lambda model, x: (model(x) - x[:, :4].sin()).pow(2).mean())


def broken():
    train(again=True)


def sound():
    train(again=False)
