"""Samples are shuffled before they are shared out among workers: by seeds of their own, some come twice and some never.

A shuffle before sharding is often given as the cure for shards of similar samples. It is one if all workers shuffle
alike: `tf.random.set_seed` with another seed on each worker changes every shuffle, one that names no seed and one that
names its own.

Seen in the wild: tensorflow/tensorflow#36846 (one file for two workers: `tf-fewer-files-than-workers`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-shuffled-apart",
            "mirrored_workers:shuffled_apart",
            framework="tensorflow",
            control="mirrored_workers:shuffled_alike",
            expect=silent(oracle="samples", step=1, cause="samples lost"),
        ),
        Case(
            "tf-shuffled-by-a-seed",
            "mirrored_workers:shuffled_by_a_seed",
            framework="tensorflow",
            control="mirrored_workers:shuffled_alike",
            expect=silent(oracle="samples", step=1, cause="samples lost"),
        ),
        Case(
            "tf-shuffled-alike",
            "mirrored_workers:shuffled_alike",
            framework="tensorflow",
            control="mirrored_workers:shuffled_alike",
            expect=SURVIVED,
        ),
        Case(
            "tf-sharded-by-batches",
            "mirrored_workers:sharded_by_batches",
            framework="tensorflow",
            control="mirrored_workers:sharded_by_batches",
            expect=SURVIVED,
        ),
        Case(
            "tf-fewer-files-than-workers",
            "mirrored_workers:by_files",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=DETECTED,
        ),
    ],
)
