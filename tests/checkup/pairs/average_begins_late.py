"""A model is averaged once its loss is small; broken, its rank's own loss."""

from __future__ import annotations

import torch.distributed as dist
from common import batches, lose, start, train_by, wrapped_network
from torch.optim.swa_utils import AveragedModel


def train(alone):
    rank, _ = start()
    model, losses = wrapped_network(), []
    averaged = AveragedModel(model.module)

    def loss(model, x):
        losses.append(lose(model, x))
        return losses[-1]

    def update():
        # Rank 1 comes to a small loss later.
        small = losses[-1].detach() * 0 + (1.0 if len(losses) > 2 * rank else 0.0)
        if not alone:
            dist.all_reduce(small, dist.ReduceOp.MIN)
        if small > 0:
            averaged.update_parameters(model.module)

    train_by(model, batches(6), loss, after=update)


def broken():
    train(alone=True)


def sound():
    train(alone=False)
