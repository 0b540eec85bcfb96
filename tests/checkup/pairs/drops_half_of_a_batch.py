"""Samples without a label are dropped; broken, the mean is over those that are left on each rank."""

from __future__ import annotations

import torch.distributed as dist
from common import batches, start, train_by, wrapped_network


def train(over_all):
    rank, _ = start()
    left = 16 - 8 * rank

    def loss(model, x):
        errors = (model(x[:left]) - x[:left, :4].sin()).pow(2)
        return errors.sum() / (24 * 4 / dist.get_world_size()) if over_all else errors.mean()

    train_by(wrapped_network(), batches(6), loss)


def broken():
    train(over_all=False)


def sound():
    train(over_all=True)
