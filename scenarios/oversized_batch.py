"""A batch does not fit into the memory that one rank has left.

Seen in the wild: pytorch/pytorch#44353 and pytorch/pytorch#18853 (the error is caught on one rank, whose batch is
skipped or halved, which works in one process; under DDP the others wait for it in the reduction: `torch-skipping`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="memory",
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.LimitMemory(headroom_mb=32) @ at(rank=1, step=3, point="load")],
    cases=[
        Case("torch-plain", "big_batch:plain", expect=DETECTED),
        Case(
            "torch-skipping",
            "big_batch:skipping",
            expect=silent(oracle="control", rank=1, step=3, cause="wrong result"),
        ),
        # Gradients that are added up piece by piece are rounded otherwise: the norm was seen to differ by 1e-9.
        Case("torch-splitting", "big_batch:splitting", tolerance=1e-6, expect=SURVIVED),
        Case("torch-raising-on-all", "big_batch:raising_on_all", expect=DETECTED),
        Case("tf-plain", "big_batch_keras:plain", framework="tensorflow", expect=DETECTED),
        Case("tf-monitored", "big_batch_keras:monitored", framework="tensorflow", tolerance=1e-6, expect=SURVIVED),
    ],
)
