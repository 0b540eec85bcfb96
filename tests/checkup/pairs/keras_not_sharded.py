"""Workers share a dataset out; broken, each of them reads all of it in one order."""

from __future__ import annotations

import keras_common as common
import tensorflow as tf


def train(policy):
    common.train_on(lambda data: data.batch(16).with_options(common.sharded(policy)))


def broken():
    train(tf.data.experimental.AutoShardPolicy.OFF)


def sound():
    train(tf.data.experimental.AutoShardPolicy.DATA)
