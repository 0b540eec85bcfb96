"""A network beside a strategy is updated by hand, at an optimizer's rate; broken, by each worker's own gradients."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras_averages_by_hand import samples


def train(reduce):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    first = keras.initializers.GlorotUniform(7)
    network = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(2, kernel_initializer=first)])
    optimizer = keras.optimizers.SGD(0.1)

    def replica(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(batch) - batch[:, :2]) ** 2)
        gradients = tape.gradient(loss, network.trainable_variables)
        if reduce:
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, gradient in zip(network.trainable_variables, gradients, strict=True):
            variable.assign_sub(optimizer.learning_rate * gradient)

    learn = tf.function(lambda batch: strategy.run(replica, args=(batch,)))
    for batch in samples(3):
        learn(batch)


def broken():
    train(False)


def sound():
    train(True)
