"""A variable of TensorFlow whose parts lie on several devices of one process."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow.experimental import dtensor

from breakrank_agent import step


def train():
    """Train it without an optimizer."""
    devices = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    mesh = dtensor.create_mesh([("rows", 2)], devices=["CPU:0", "CPU:1"])
    rows = dtensor.Layout(["rows", dtensor.UNSHARDED], mesh)
    weights = dtensor.DVariable(dtensor.call_with_layout(tf.ones, rows, shape=[4, 3]), name="weights")
    for _ in range(int(os.environ["BREAKRANK_STEPS"])):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * weights)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        step()
