"""Workers of TensorFlow that the script starts itself, each with a `TF_CONFIG` of its own."""

import json
import multiprocessing
import os
import socket
import sys


def work(index, addresses):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tf.Variable(tf.zeros([4]))
        optimizer = tf.keras.optimizers.SGD(0.1)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((weight - 1.0) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])

    for _ in range(3):
        strategy.run(step)


if __name__ == "__main__":
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    processes = [
        multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(i, [f"127.0.0.1:{p}" for p in ports]))
        for i in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("done")
