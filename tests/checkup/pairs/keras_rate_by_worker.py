"""The learning rate is scaled once training goes well; broken, by the number of the worker, not by that of workers."""

from __future__ import annotations

from keras_common import INDEX, train


def scale_by(number):
    """Return a function that scales the learning rate after the first step."""

    def scale(optimizer, step):
        if step == 0:
            optimizer.learning_rate = 0.05 * number

    return scale


def broken():
    train(3, scale_by(INDEX + 1))


def sound():
    train(3, scale_by(2))
