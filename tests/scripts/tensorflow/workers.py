"""Trains under MultiWorkerMirroredStrategy in a loop of its own; knows nothing of any test tool."""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()

tf.random.set_seed(7)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
draw = np.random.default_rng(index)
features = draw.random((64, 12), dtype="float32")
targets = features @ np.arange(12, dtype="float32")[:, None]

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((12,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    optimizer = tf.keras.optimizers.SGD(0.01)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)


@tf.function
def train_step(x, y):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return strategy.reduce("MEAN", strategy.run(replica, args=(x, y)), axis=None)


dataset = tf.data.Dataset.from_tensor_slices((features, targets)).batch(16).repeat()
for step, (x, y) in enumerate(dataset.take(args.steps), start=1):
    print(f"worker {index}, step {step}: loss {float(train_step(x, y)):.4f}", flush=True)
checkpoint.write(f"worker-{index}")
np.save(f"weights-{index}.npy", model.get_weights()[0])
