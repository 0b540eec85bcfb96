"""One read of a shard fails, and the next one does not, as on a disk or a network file system that is not well."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.FailCall(call="pread64", path="*-00001-of-*.bin") @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-skipping",
            "reading:skipping",
            expect=silent(oracle="control", rank=1, step=3, cause="wrong result"),
        ),
        Case("torch-plain", "reading:plain", expect=DETECTED),
        Case("torch-retrying", "reading:retrying", expect=SURVIVED),
    ],
)
