"""Epochs are shuffled; broken, the sampler is told of none."""

from __future__ import annotations

from common import train_shuffled


def broken():
    train_shuffled(lambda sampler, epoch: None)


def sound():
    train_shuffled(lambda sampler, epoch: sampler.set_epoch(epoch))
