"""The parts that pairs share whose workers average gradients by hand, of variables that no strategy holds."""

from __future__ import annotations

import tensorflow as tf
from keras_common import INDEX


def averaging():
    """Return a function that averages a list of gradients over the workers."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def average(*gradients):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, list(gradients))

    return lambda gradients: strategy.run(average, args=tuple(gradients))


def samples(steps):
    """Return the batches of this worker."""
    mine = tf.random.Generator.from_seed(40 + INDEX)
    return [mine.normal((12, 6)) for _ in range(steps)]
