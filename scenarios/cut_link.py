"""A rank's network link goes down inside the gradients' reduction: both sides live, and nothing gets through.

No connection is told: a dead link looks like a slow one. The ranks see silence, for as long as their process group
lets them wait, which is 30 minutes if nobody says otherwise.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung, silent

WENT_ON_ALONE = silent(oracle="replicas", step=3, cause="replicas differ")

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=[faults.CutLink() @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", step=3, cause="unreachable")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case("torch-unassisted", "averaging:unassisted", expect=WENT_ON_ALONE),
        Case("torch-meeting", "averaging:met", expect=DETECTED),
    ],
)
