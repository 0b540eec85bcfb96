"""One worker passes over a batch: its steps pair with the others' as before, each of them with the next batch.

Nobody waits for anybody, and the samples of that batch have no part in the result.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "exhausted_shm and exhausted_pids have it: a loader that fails, and old batches in its place"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-skipping",
            "mirrored_workers:skipping",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=silent(oracle="samples", rank=1, step=3, cause="samples lost"),
        ),
        Case(
            "tf-taking-all",
            "mirrored_workers:reducing",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=SURVIVED,
        ),
    ],
)
