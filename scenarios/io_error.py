"""From a step on a rank's shard cannot be read any more, as on a disk that has lost its blocks."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.FailReads(path="digits-00001-of-*.bin") @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-skipping",
            "reading:skipping",
            expect=silent(oracle="control", rank=1, step=3, cause="another batch"),
        ),
        Case("torch-plain", "reading:plain", expect=DETECTED),
        Case("torch-mirrored", "reading:mirrored", expect=SURVIVED),
    ],
)
