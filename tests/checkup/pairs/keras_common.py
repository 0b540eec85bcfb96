"""The parts that the pairs of TensorFlow share: workers with one model, and the steps of a training."""

from __future__ import annotations

import json
import os

import keras
import tensorflow as tf

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def train(steps, after):
    """Train as one of the workers; call `after` with the optimizer and the number of each step, from 0."""
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
    for step in range(steps):
        learn(samples.normal((16, 8)))
        after(optimizer, step)
