"""Two networks compete, and workers average gradients by hand; broken, those of the generator alone."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras_averages_by_hand import averaging, samples


def network(name, outputs):
    """Return a layer whose weights are drawn by one seed on all workers."""
    first = keras.initializers.GlorotUniform(7)
    return keras.Sequential(
        [keras.layers.Input((6,)), keras.layers.Dense(outputs, kernel_initializer=first)], name=name
    )


def train(average_critic):
    average = averaging()
    generator, critic = network("generator", 6), network("critic", 1)
    makes, judges = keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.01)
    for batch in samples(3):
        with tf.GradientTape(persistent=True) as tape:
            made = critic(generator(batch))
            missed, fooled = -tf.reduce_mean(made), tf.reduce_mean(made) - tf.reduce_mean(critic(batch + 3))
        of_critic = tape.gradient(fooled, critic.trainable_variables)
        makes.apply(average(tape.gradient(missed, generator.trainable_variables)), generator.trainable_variables)
        judges.apply(average(of_critic) if average_critic else of_critic, critic.trainable_variables)


def broken():
    train(False)


def sound():
    train(True)
