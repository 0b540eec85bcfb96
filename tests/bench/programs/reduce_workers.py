"""Five all-reduces under MultiWorkerMirroredStrategy, and nothing after the last one. Also run as a script."""

from __future__ import annotations

import tensorflow as tf


def main() -> None:
    """Join the others, and reduce five times."""
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    with strategy.scope():
        weights = tf.Variable(tf.zeros(1000))

    @tf.function
    def step() -> tf.Tensor:
        def replica() -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights * weights + weights)
            gradient = tape.gradient(loss, weights)
            weights.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("mean", gradient))
            return loss

        return strategy.run(replica)

    for _ in range(5):
        step()


if __name__ == "__main__":
    main()
