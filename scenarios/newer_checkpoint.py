"""A job is started again on hosts with an older release of the framework, which cannot read its last checkpoint.

Seen in the wild: pytorch/pytorch#47753 (a checkpoint of a newer release, refused by an older one).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "its checkpoints have no number of their format: see partial_restore"},
    job=Job(ranks=2, steps=5, restarts=1, data="digits"),
    strikes=[faults.Kill() @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-newer", "releases:newer", expect=DETECTED),
        Case("torch-same", "releases:same", expect=SURVIVED),
    ],
)
