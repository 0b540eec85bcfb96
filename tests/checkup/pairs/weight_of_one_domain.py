"""Losses are weighted; broken, by the domain that a rank reads, so that one domain counts for more."""

from __future__ import annotations

from common import batches, lose, start, train_by, wrapped_network


def train(weight):
    rank, _ = start()
    train_by(wrapped_network(), batches(6), lambda model, x: weight[rank] * lose(model, x))


def broken():
    train((1.0, 0.25))


def sound():
    train((0.5, 0.5))
