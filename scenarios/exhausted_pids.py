"""A rank can start no process any more when it wants new workers for its loader."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "its input pipelines are threads, and no processes"},
    job=Job(ranks=2, steps=6, data="digits"),
    # The worker of the first epoch ends with it, and so do threads of both sides: sooner or later, up to four are gone.
    # None leaves room behind, or luck would say whether it is the new worker or its thread that is refused.
    strikes=[faults.LimitProcesses(headroom=-5) @ at(rank=1, step=3, point="step")],
    cases=[
        Case("torch-plain", "loading:plain", expect=DETECTED),
        Case(
            "torch-with-old-batches",
            "loading:with_old_batches",
            expect=silent(oracle="samples", rank=1, step=4, cause="samples lost"),
        ),
        Case("torch-without-workers", "loading:without_workers", expect=SURVIVED),
    ],
)
