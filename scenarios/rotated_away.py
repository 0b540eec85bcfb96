"""The last checkpoint is removed before the next one is on disk, and the rank that saves is killed in between.

Or the power fails in between: then the removal is on disk, and of the next one only its name.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, detected, faults, silent

POWER_FAILS = [faults.LoseWrites() @ at(rank="all", step=4, point="collective")]
GONE = silent(oracle="checkpoint", rank=0, step=4, cause="no checkpoint")

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits", restarts=1),
    strikes=[faults.Kill() @ at(rank=0, step=4, point="save")],
    cases=[
        Case("torch-removed-first", "rotating:removed_first", expect=GONE),
        Case("torch-removed-last", "rotating:removed_last", expect=SURVIVED),
        Case(
            "torch-removed-early",
            "rotating:removed_early",
            strikes=POWER_FAILS,
            expect=detected(oracle="checkpoint", rank=0, step=3, cause="checkpoint lost"),
        ),
        Case("torch-on-disk", "rotating:removed_last", strikes=POWER_FAILS, expect=SURVIVED),
        Case("tf-clearing", "guarded_workers:clearing", framework="tensorflow", expect=GONE),
        Case("tf-rotating", "guarded_workers:rotating", framework="tensorflow", expect=SURVIVED),
    ],
)
