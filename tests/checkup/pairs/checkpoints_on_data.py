"""Blocks are computed again in the backward pass; broken, by a checkpoint that needs an input with a gradient."""

from __future__ import annotations

from common import average_given, batches, start, start_alike, train_by
from torch import nn
from torch.utils.checkpoint import checkpoint


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 4)


def train(reentrant):
    start()

    def lose(model, x):
        return model.head(checkpoint(model.block, x, use_reentrant=reentrant)).pow(2).mean()

    train_by(start_alike(Blocks), batches(5), lose, average_given)


def broken():
    train(reentrant=True)


def sound():
    train(reentrant=False)
