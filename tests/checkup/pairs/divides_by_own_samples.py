"""A sum of losses is divided by a number of samples; broken, by those that the rank has in all."""

from __future__ import annotations

from common import batches, start, train_by, wrapped_network


def train(samples_of):
    rank, _ = start()

    def loss(model, x):
        return (model(x) - x[:, :4].sin()).pow(2).sum() / samples_of(rank)

    train_by(wrapped_network(), batches(6), loss)


def broken():
    train(lambda rank: 96 + 32 * rank)


def sound():
    train(lambda rank: 96)
