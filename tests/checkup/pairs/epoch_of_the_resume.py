"""Epochs are shuffled; broken, the sampler is told the one that the job resumed from, again and again."""

from __future__ import annotations

from common import train_shuffled


def broken():
    train_shuffled(lambda sampler, epoch: sampler.set_epoch(3))


def sound():
    train_shuffled(lambda sampler, epoch: sampler.set_epoch(3 + epoch))
