"""Two workers of TensorFlow whose collectives are in graphs, in the graphs inside of these, and in none."""

from __future__ import annotations

import json
import os

import tensorflow as tf

from breakrank_agent import state


def everywhere() -> None:
    """Reduce in a function, a loop, a branch, a function inside, and eagerly; gather; then end at once."""
    strategy, reduced = build()
    outer(strategy, reduced)(tf.constant(2))
    total = strategy.reduce("SUM", strategy.run(lambda: tf.ones(2)), axis=None)
    gathered = strategy.gather(strategy.run(lambda: tf.ones((1, 2))), axis=0)
    state(total=total.numpy().tolist(), gathered=gathered.numpy().tolist())


def out_of_step() -> None:
    """Broken: the last worker takes the number of a collective, and never enters it."""
    strategy, reduced = build()
    step = tf.function(lambda: strategy.run(reduced))
    step()
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
        # A look at a function's captures makes the function capture them, as a call does.
        list(step.get_concrete_function().captured_inputs)
    step()


def build() -> tuple[tf.distribute.Strategy, object]:
    """Return the strategy, and the function by which a replica reduces its gradient."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones(3))

    def reduced() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * weights)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("mean", gradient))
        return loss

    return strategy, reduced


def outer(strategy: tf.distribute.Strategy, reduced: object) -> tf.types.experimental.PolymorphicFunction:
    """Return the function with all kinds of collectives in it."""

    @tf.function
    def inner() -> tf.Tensor:
        return strategy.run(reduced)

    @tf.function
    def run(times: tf.Tensor) -> tf.Tensor:
        loss = strategy.run(reduced)
        for _ in tf.range(times):
            loss = strategy.run(reduced)
        if loss > 1e6:
            loss = strategy.run(reduced)
        return loss + inner()

    return run
