"""A norm scales tokens by their squares; broken, it adds up those of all ranks, as it would of divided features."""

from __future__ import annotations

import torch
from common import batches, start, train_by
from divided_common import Block, Reduce
from torch import nn


class Norm(nn.Module):
    """A norm by the root of the mean square."""

    def __init__(self, divided):
        super().__init__()
        self.weight, self.divided = nn.Parameter(torch.ones(8)), divided

    def forward(self, x):
        square = x.square().sum(1, keepdim=True)
        square = Reduce.apply(square) if self.divided else square
        return x * (square / 8 + 1e-5).rsqrt() * self.weight


def train(divided):
    rank, world = start()
    block = Block(rank, world)
    block.norm = Norm(divided)
    torch.manual_seed(0)
    model = nn.Sequential(block, nn.Linear(8, 4))
    train_by(model, batches(4, seed=5), lambda model, x: (model(x) - x[:, :4].sin()).pow(2).mean())


def broken():
    train(divided=True)


def sound():
    train(divided=False)
