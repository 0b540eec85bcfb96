"""A dataset does not fit into the memory that one worker has left: its shuffle buffer holds all of it.

Seen in the wild: tensorflow/tensorflow#32052 and tensorflow/tensorflow#42586 (a shuffle buffer the size of the dataset,
and a process without memory).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, crashed, faults

DIED = crashed(oracle="crash", rank=1, step=3, cause="killed by a signal")

SCENARIO = Scenario(
    family="memory",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.LimitMemory(headroom_mb=32) @ at(rank=1, step=3, point="load")],
    cases=[
        Case("tf-shuffled-whole", "big_dataset_keras:shuffled_as_a_whole", framework="tensorflow", expect=DIED),
        Case("tf-shuffled-by-parts", "big_dataset_keras:shuffled_by_parts", framework="tensorflow", expect=SURVIVED),
    ],
)
