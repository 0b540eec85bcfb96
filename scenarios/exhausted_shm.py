"""The shared memory through which a loader's workers hand over batches is too small for a batch.

Seen in the wild: pytorch/pytorch#5040 and horovod/horovod#2255 (a container's /dev/shm of 64 MB, and processes that die
of SIGBUS: `torch-segment`) and pytorch/pytorch#1355 (ranks that waited for their loader; today an error says so:
`torch-plain`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, crashed, faults, silent

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its input pipelines are threads, and no processes"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.ShrinkSharedMemory(size_kb=64) @ at(rank=1, step=3, point="step")],
    cases=[
        Case("torch-plain", "loading:plain", expect=DETECTED),
        Case(
            "torch-with-old-batches",
            "loading:with_old_batches",
            expect=silent(oracle="samples", rank=1, step=4, cause="samples lost"),
        ),
        Case("torch-without-workers", "loading:without_workers", expect=SURVIVED),
        Case("torch-segment", "segments:made_longer", expect=crashed(oracle="crash", rank=1, step=4)),
        Case("torch-segment-reserved", "segments:reserved", expect=DETECTED),
    ],
)
