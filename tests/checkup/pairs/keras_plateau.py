"""Workers of TensorFlow lower the learning rate when a loss stands still; broken, each looks at its own loss."""

from __future__ import annotations

from keras_common import INDEX, train


def lower_at(chosen):
    """Return a function that lowers the learning rate after a step."""

    def lower(optimizer, step):
        if step == chosen:
            optimizer.learning_rate = 0.05

    return lower


def broken():
    # The loss of worker 1 stands still at the second step.
    train(4, lower_at(INDEX))


def sound():
    train(4, lower_at(2))
