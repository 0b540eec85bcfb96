"""Packets of rank 0 no longer reach rank 1, while those of rank 1 still arrive, and no link is down.

A half-open link is harder to find than a dead one: an observer of rank 1 still gets its packets, and only TCP lacks its
confirmations.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung, silent

WENT_ON_ALONE = silent(oracle="replicas", step=3, cause="replicas differ")

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, data="digits", patience_s=5.0),
    strikes=[faults.OneWayLink(peer=0) @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", step=3, cause="unreachable")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case("torch-unassisted", "averaging:unassisted", expect=WENT_ON_ALONE),
    ],
)
