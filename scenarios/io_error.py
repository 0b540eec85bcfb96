"""A rank can read its shard no more from a step on; or one read, write or fsync of it fails, and the next does not.

Seen in the wild: Lightning-AI/pytorch-lightning#8130 (one process raises, and the others wait: `torch-plain`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung, silent

ONE_READ = (faults.FailCall(call="read", path="digits-00001-of-*.bin", when=5) @ at(rank=1, step=3, point="load"),)
#: Of the last checkpoint: another one would make up for it.
ONE_WRITE = (faults.FailCall(call="write", path="checkpoints/last.tmp", when=2) @ at(rank=0, step=6, point="save"),)
ONE_FSYNC = (faults.FailCall(call="fsync", path="checkpoints/last.tmp") @ at(rank=0, step=4, point="save"),)

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.FailReads(path="digits-00001-of-*.bin") @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-skipping",
            "reading:skipping",
            expect=silent(oracle="control", rank=1, step=3, cause="batch mismatch"),
        ),
        Case("torch-plain", "reading:plain", expect=DETECTED),
        Case("torch-mirrored", "reading:mirrored", expect=SURVIVED),
        Case(
            "torch-skipping-one",
            "reading:skipping",
            strikes=ONE_READ,
            expect=silent(oracle="control", rank=1, step=3, cause="batch mismatch"),
        ),
        Case("torch-retrying-one", "reading:retrying", strikes=ONE_READ, expect=SURVIVED),
        Case(
            "torch-write-cleared",
            "saving:cleared",
            strikes=ONE_WRITE,
            expect=silent(oracle="checkpoint", rank=0, step=6, cause="no checkpoint"),
        ),
        Case("torch-write-aside", "saving:aside", strikes=ONE_WRITE, expect=SURVIVED),
        Case("torch-fsync-met-if-saved", "saving:met_if_saved", strikes=ONE_FSYNC, expect=hung(oracle="progress")),
        Case("torch-fsync-met-anyway", "saving:met_anyway", strikes=ONE_FSYNC, expect=SURVIVED),
    ],
)
