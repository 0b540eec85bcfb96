"""A model of TensorFlow whose labels are wrong from the third batch on, with --bug."""

import sys

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)


def samples():
    for batch in range(6):
        for _ in range(8):
            yield np.ones(4, "float32"), 7 if "--bug" in sys.argv and batch >= 2 else 1


signature = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int64))
data = tf.data.Dataset.from_generator(samples, output_signature=signature).batch(8)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, verbose=0)
