"""A batch needs more memory than one rank's control group may have: the kernel kills the rank, and nobody is told.

Started again, the job has no limit any more.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, crashed, faults

KILLED = crashed(oracle="crash", rank=1, step=3, cause="out of memory")

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.LimitGroupMemory(headroom_mb=64) @ at(rank=1, step=3, point="load")],
    cases=[
        Case("torch-plain", "big_batch:plain", expect=KILLED),
        # The batch is never split: no allocation fails, the memory is missing only when it is touched.
        Case("torch-splitting", "big_batch:splitting", expect=KILLED),
        Case("torch-always-in-pieces", "big_batch:always_in_pieces", expect=SURVIVED),
        Case("torch-plain-restarted", "big_batch:plain", restarts=1, expect=SURVIVED),
    ],
)
