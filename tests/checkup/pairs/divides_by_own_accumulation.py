"""The loss is divided by the number of small batches in a large one; broken, each rank has a number of its own."""

from __future__ import annotations

from common import batches, lose, start, train_by, wrapped_network


def train(number_of):
    rank, _ = start()
    train_by(wrapped_network(), batches(6), lambda model, x: lose(model, x) / number_of(rank))


def broken():
    train(lambda rank: 1 + rank)


def sound():
    train(lambda rank: 2)
