"""Workers of TensorFlow lower the learning rate when a loss stands still; broken, each looks at its own loss."""

from __future__ import annotations

import json
import os

import keras
import tensorflow as tf

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def train(alone):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        first = keras.initializers.GlorotUniform(7)
        network = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, kernel_initializer=first)])
        optimizer = keras.optimizers.SGD(0.1)

    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x) - x[:, :4]) ** 2) / strategy.num_replicas_in_sync
        optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)

    learn = tf.function(lambda x: strategy.run(replica, args=(x,)))
    samples = tf.random.Generator.from_seed(INDEX)
    for step in range(4):
        learn(samples.normal((16, 8)))
        # The loss of worker 1 stands still at the second step, and that of all workers together at the third.
        if step == (INDEX if alone else 2):
            optimizer.learning_rate = 0.05


def broken():
    train(alone=True)


def sound():
    train(alone=False)
