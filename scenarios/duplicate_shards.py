"""All workers are handed the same samples in the same order: nothing but the time that it takes tells of it."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "see mismatched_shards and uneven_batches"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-unsharded",
            "mirrored_workers:unsharded",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=silent(oracle="samples", rank=1, step=1, cause="duplicate shard"),
        ),
        Case(
            "tf-sharded",
            "mirrored_workers:reducing",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=SURVIVED,
        ),
    ],
)
