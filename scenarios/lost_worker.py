"""A loader's worker is killed as the second epoch begins, as by the kernel where memory is short.

Seen in the wild: NVlabs/edm#7 (a worker that was killed after hours) and hpcaitech/Open-Sora#815 (a worker that left,
and an error that is lost among those of the other ranks: `torch-plain`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "its input pipelines are threads, and no processes"},
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-with-old-batches",
            "loading:losing_a_worker_with_old_batches",
            control="loading:plain",
            expect=silent(oracle="samples", rank=-1, step=4, cause="samples lost"),
        ),
        Case("torch-plain", "loading:losing_a_worker", control="loading:plain", expect=DETECTED),
        Case(
            "torch-without-workers",
            "loading:losing_a_worker_without_workers",
            control="loading:plain",
            expect=SURVIVED,
        ),
    ],
)
