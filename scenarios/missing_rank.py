"""A rank never comes to the meeting: it is gone before it has imported anything.

Seen in the wild: pytorch/pytorch#23074 (ranks that are counted twice, so that others are never seen) and
tensorflow/tensorflow#53098 (a worker that never starts, and no limit on the wait for it: `tf-waiting-for-all`).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung

NEVER_CAME = hung(oracle="progress", rank=0, step=0, cause="rank missing")

SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=3, steps=5, deadline_s=10.0, data="digits"),
    strikes=[faults.Kill() @ at(rank=1, step=0, point="start")],
    cases=[
        Case(
            "torch-waiting-for-all",
            "rendezvous:waiting_for_all",
            expect=NEVER_CAME,
        ),
        Case("torch-calling-the-roll", "rendezvous:calling_the_roll", expect=DETECTED),
        Case("tf-waiting-for-all", "clusters:launched", framework="tensorflow", expect=NEVER_CAME),
        Case("tf-calling-the-roll", "clusters:calling_the_roll", framework="tensorflow", expect=DETECTED),
    ],
)
