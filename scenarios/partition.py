"""The network falls in two: rank 0 on one side, ranks 1 and 2 on the other, and all links are up.

Each side goes on to believe that it is the job. A job that carries on in two parts has two models in the end.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung, silent

WENT_ON_ALONE = silent(oracle="replicas", step=3, cause="replicas differ")

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=3, steps=5, data="digits", patience_s=5.0),
    strikes=[faults.Partition(first=1) @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", step=3, cause="unreachable")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case("torch-unassisted", "averaging:unassisted", expect=WENT_ON_ALONE),
    ],
)
