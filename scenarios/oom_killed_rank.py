"""A batch needs more memory than one rank's control group may have: the kernel kills the rank, and says so nowhere else.

The job is started again, once, without the limit.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, crashed, faults, silent

SCENARIO = Scenario(
    family="memory",
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.LimitGroupMemory(headroom_mb=64) @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-plain", "big_batch:plain", expect=crashed(oracle="crash", rank=1, step=3, cause="out of memory")
        ),
    ],
)
