"""Workers average gradients by hand, from weights that are drawn; broken, each draws by a seed of its own."""

from __future__ import annotations

import tensorflow as tf
from keras_averages_by_hand import averaging, samples
from keras_common import INDEX


def train(seed):
    average = averaging()
    tf.random.set_seed(seed)
    weights = tf.Variable(tf.random.normal((6, 2)), name="weights")
    offset = tf.Variable(tf.zeros((2,)), name="offset")
    for batch in samples(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((batch @ weights + offset - batch[:, :2]) ** 2)
        for variable, gradient in zip((weights, offset), average(tape.gradient(loss, (weights, offset))), strict=True):
            variable.assign_sub(0.1 * gradient)


def broken():
    train(17 + INDEX)


def sound():
    train(17)
