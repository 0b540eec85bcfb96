"""The host of rank 0, at which all ranks are to meet, cannot be reached from rank 1: packets between them are dropped.

No connection is refused, so that a rank that looks for the master waits for the time-out of the process group, which is
30 minutes if nobody says otherwise.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "a worker that cannot be reached is a missing one: see wrong_cluster"},
    job=Job(ranks=2, steps=4, data="digits", patience_s=5.0),
    strikes=[faults.Partition(first=1) @ at(rank=1, step=0, point="start")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", cause="unreachable")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
    ],
)
