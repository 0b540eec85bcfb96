"""Each worker reads a part of the samples; broken, all of them the same part, shuffled otherwise."""

from __future__ import annotations

import keras_common as common
import tensorflow as tf

OFF = tf.data.experimental.AutoShardPolicy.OFF


def train(part):
    def prepared(data):
        return data.shard(2, part).shuffle(32, seed=common.INDEX).batch(16).with_options(common.sharded(OFF))

    common.train_on(prepared)


def broken():
    train(0)


def sound():
    train(common.INDEX)
