"""A model keeps a running mean of its inputs; broken, each worker keeps that of its own."""

from __future__ import annotations

import tensorflow as tf
from keras_common import INDEX


def train(aggregation):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.zeros((8, 4)), name="weights", aggregation=tf.VariableAggregation.MEAN)
        mean = tf.Variable(tf.zeros(8), trainable=False, name="mean", aggregation=aggregation)
        seen = tf.Variable(0.0, trainable=False, name="seen")

    def replica(x):
        mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x, 0))
        seen.assign_add(tf.reduce_sum(x))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - x[:, :4]) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))

    learn, samples = tf.function(lambda x: strategy.run(replica, args=(x,))), tf.random.Generator.from_seed(INDEX)
    for _ in range(5):
        learn(samples.normal((16, 8)))


def broken():
    train(tf.VariableAggregation.NONE)


def sound():
    train(tf.VariableAggregation.MEAN)
