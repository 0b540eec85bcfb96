"""The learning rate of workers falls with each step; broken, the chief alone sets it."""

from __future__ import annotations

from keras_common import INDEX, train


def fall(optimizer, step):
    optimizer.learning_rate = 0.1 * 0.5 ** (step + 1)


def broken():
    train(4, fall if INDEX == 0 else lambda optimizer, step: None)


def sound():
    train(4, fall)
