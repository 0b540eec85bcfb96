"""Ranks have batches of their own size; broken, each takes the mean of its losses, and the means are averaged."""

from __future__ import annotations

from common import batches, lose, start, train_by, wrapped_network


def train(weighs):
    rank, world = start()
    own, total = 8 * (rank + 1), 8 * world * (world + 1) // 2
    share = own * world / total if weighs else 1.0
    train_by(wrapped_network(), batches(6, size=own), lambda model, x: lose(model, x) * share)


def broken():
    train(weighs=False)


def sound():
    train(weighs=True)
