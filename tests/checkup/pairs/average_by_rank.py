"""The averaged model forgets slowly; broken, at a pace of the rank's own."""

from __future__ import annotations

from common import batches, lose, start, train_by, wrapped_network
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn


def train(decay_of):
    rank, _ = start()
    model = wrapped_network()
    averaged = AveragedModel(model.module, avg_fn=get_ema_avg_fn(decay_of(rank)))
    train_by(model, batches(6), lose, after=lambda: averaged.update_parameters(model.module))


def broken():
    train(lambda rank: 0.9 + 0.05 * rank)


def sound():
    train(lambda rank: 0.9)
