"""The first samples of a shuffle are for validation; broken, each epoch shuffles again before the split."""

from __future__ import annotations

import keras_common as common
import tensorflow as tf


def train(again):
    _, learn, _ = common.learner()
    data = tf.data.Dataset.from_tensor_slices(tf.random.Generator.from_seed(3).normal((96, 8)))
    mixed = data.shuffle(96, seed=3, reshuffle_each_iteration=again)
    for _ in range(2):
        for x in mixed.skip(32).shard(2, common.INDEX).batch(8):
            learn(x)
        for x in mixed.take(32).shard(2, common.INDEX).batch(8):
            tf.reduce_mean(x)


def broken():
    train(again=True)


def sound():
    train(again=False)
