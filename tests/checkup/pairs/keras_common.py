"""The parts that the pairs of TensorFlow share: workers with one model, and the steps of a training."""

from __future__ import annotations

import json
import os

import keras
import tensorflow as tf

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def sharded(policy):
    """Return the options of a dataset that is shared out by a policy."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return options


def train_on(prepared, held_out=None):
    """Train on what `prepared` makes of 64 samples, and look at what `held_out` makes of them."""
    strategy, learn, _ = learner()
    data = tf.data.Dataset.from_tensor_slices(tf.random.Generator.from_seed(3).normal((64, 8)))
    for batch in strategy.experimental_distribute_dataset(prepared(data)):
        learn(batch)
    for batch in held_out(data) if held_out is not None else ():
        tf.reduce_mean(batch)


def learner():
    """Return the strategy of this worker, a function that makes a step on a batch, and its optimizer."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        first = keras.initializers.GlorotUniform(7)
        network = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, kernel_initializer=first)])
        optimizer = keras.optimizers.SGD(0.1)

    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x) - x[:, :4]) ** 2) / strategy.num_replicas_in_sync
        optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)

    return strategy, tf.function(lambda x: strategy.run(replica, args=(x,))), optimizer


def train(steps, after):
    """Train as one of the workers; call `after` with the optimizer and the number of each step, from 0."""
    _, learn, optimizer = learner()
    samples = tf.random.Generator.from_seed(INDEX)
    for step in range(steps):
        learn(samples.normal((16, 8)))
        after(optimizer, step)
