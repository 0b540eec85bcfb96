"""Two replicas of one process that come to their updates in several ways, in graphs or operation by operation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import tensorflow as tf

RATE = 0.1


def sound() -> None:
    """Let each replica's gradients into the update in each of these ways."""
    strategy, weights, kept = build()
    for apply in (averaged, summed_up_by_hand, with_momentum, accumulated, clipped, asked_for):
        step_of(strategy, weights, lambda gradient, apply=apply: apply(weights, kept, gradient))()


def sound_by_keras() -> None:
    """Have an optimizer of Keras apply the gradients, with momentum."""
    import keras

    strategy, weights, _ = build()
    with strategy.scope():
        optimizer = keras.optimizers.SGD(RATE, momentum=0.9)
        optimizer.build([weights])
    step_of(strategy, weights, lambda gradient: optimizer.apply([gradient], [weights]))()


def through_numpy() -> None:
    """Apply, operation by operation, gradients that numpy has had in between."""
    strategy, weights, _ = build()
    step_of(strategy, weights, lambda gradient: weights.assign_sub(RATE * tf.constant(gradient.numpy())))()


def of_some_rows() -> None:
    """Have an optimizer of Keras apply the gradients of rows: those that a replica used."""
    import keras

    strategy, _, _ = build()
    with strategy.scope():
        table = tf.Variable(tf.ones((4, 3)), name="table", aggregation=tf.VariableAggregation.MEAN)
        optimizer = keras.optimizers.Adam(RATE)
        optimizer.build([table])

    def replica() -> None:
        row = tf.distribute.get_replica_context().replica_id_in_sync_group
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [row]) ** 2)
        optimizer.apply([tape.gradient(loss, table)], [table])

    tf.function(lambda: strategy.run(replica))()


def applied_in_a_function() -> None:
    """Take gradients operation by operation, and apply them in a function, without any strategy."""
    import keras

    weights = tf.Variable(tf.ones(3), name="weights")
    optimizer = keras.optimizers.SGD(RATE)
    optimizer.build([weights])
    apply = tf.function(lambda gradient: optimizer.apply([gradient], [weights]))
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * weights)
        apply(tape.gradient(loss, weights))


def two_in_turn() -> None:
    """Take gradients of two variables one after the other, each of them applied before the next."""
    strategy, weights, kept = build()

    def replica() -> None:
        for one in (weights, kept):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((1.0 + one) ** 2)
            one.assign_sub(RATE * tape.gradient(loss, one))

    tf.function(lambda: strategy.run(replica))()


def by_two_workers() -> None:
    """Have the gradients of two workers averaged by the variable."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones(3), name="weights", aggregation=tf.VariableAggregation.MEAN)
    step_of(strategy, weights, lambda gradient: weights.assign_sub(RATE * gradient))()


def in_a_branch() -> None:
    """Apply in a branch, without any strategy, gradients that were summed up before it."""
    weights, kept = tf.Variable(tf.ones(3), name="weights"), tf.Variable(tf.zeros(3), name="kept")

    @tf.function
    def step(due: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * weights)
        kept.assign_add(tape.gradient(loss, weights))
        if due:
            weights.assign_sub(RATE * kept)

    for due in (False, True):
        step(tf.constant(due))


def zeros_in_place() -> None:
    """Broken: the second replica gives zeros, in the shape of its gradients."""
    strategy, weights, _ = build()

    def apply(gradient: tf.Tensor) -> None:
        first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        weights.assign_sub(RATE * tf.cond(first, lambda: gradient, lambda: tf.zeros_like(gradient)))

    step_of(strategy, weights, apply)()


def one_step_old() -> None:
    """Broken: apply the gradients kept from the step before, and keep the new ones for the next step."""
    strategy, weights, kept = build()

    def apply(gradient: tf.Tensor) -> None:
        weights.assign_sub(RATE * kept)
        kept.assign(gradient)

    step_of(strategy, weights, apply)()


def nothing_from_one_worker() -> None:
    """Broken: of several workers, the last one gives zeros."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones(3), name="weights", aggregation=tf.VariableAggregation.MEAN)
    last = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == strategy.num_replicas_in_sync - 1

    def apply(gradient: tf.Tensor) -> None:
        weights.assign_sub(RATE * (tf.zeros_like(gradient) if last else gradient))

    step_of(strategy, weights, apply)()


def averaged(weights: tf.Variable, kept: tf.Variable, gradient: tf.Tensor) -> None:
    """Have the variable average the updates of the replicas."""
    weights.assign_sub(RATE * gradient)


def summed_up_by_hand(weights: tf.Variable, kept: tf.Variable, gradient: tf.Tensor) -> None:
    """Reduce the gradients, and take them off."""
    weights.assign_sub(RATE * tf.distribute.get_replica_context().all_reduce("sum", gradient))


def with_momentum(weights: tf.Variable, kept: tf.Variable, gradient: tf.Tensor) -> None:
    """Take off a momentum of all gradients so far."""
    kept.assign(0.9 * kept + gradient)
    weights.assign_sub(RATE * kept)


def accumulated(weights: tf.Variable, kept: tf.Variable, gradient: tf.Tensor) -> None:
    """Take off the sum that the gradients are added to, and start anew."""
    kept.assign_add(gradient)
    weights.assign_sub(RATE * kept)
    kept.assign(tf.zeros_like(kept))


def clipped(weights: tf.Variable, kept: tf.Variable, gradient: tf.Tensor) -> None:
    """Take off the gradients, of a norm that is not too large."""
    weights.assign_sub(RATE * tf.clip_by_norm(gradient, 1.0))


def asked_for(weights: tf.Variable, kept: tf.Variable, gradient: tf.Tensor) -> None:
    """Ask which replica this is, and give the gradient either way."""
    first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
    weights.assign_sub(RATE * tf.cond(first, lambda: gradient, lambda: 2 * gradient))


def build() -> tuple[tf.distribute.Strategy, tf.Variable, tf.Variable]:
    """Return the strategy of two replicas, the weights, and as many numbers beside them."""
    (processor,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    mean = tf.VariableAggregation.MEAN
    with strategy.scope():
        weights = tf.Variable(tf.ones(3), name="weights", aggregation=mean)
        return strategy, weights, tf.Variable(tf.zeros(3), name="kept", aggregation=mean)


def step_of(
    strategy: tf.distribute.Strategy, weights: tf.Variable, apply: Callable[[tf.Tensor], object]
) -> Callable[[], object]:
    """Return a step in which each replica takes gradients, and applies them so."""

    def replica() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * weights)
        apply(tape.gradient(loss, weights))

    return tf.function(lambda: strategy.run(replica))
