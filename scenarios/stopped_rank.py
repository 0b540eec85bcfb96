"""A rank stands still inside the gradients' reduction: alive, its connections open, silent.

Its peers wait for as long as their process group lets them, which is 30 minutes if nobody says otherwise.

Seen in the wild: pytorch/pytorch#111646 (a node that stands still and is not replaced: the others stay in their
collectives).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung

STANDS_STILL = hung(oracle="progress", rank=0, step=3, cause="peer stopped")

SCENARIO = Scenario(
    family="process",
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=[faults.Stop() @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=STANDS_STILL),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case("torch-meeting", "averaging:met", expect=DETECTED),
        Case("tf-plain", "workers:plain", framework="tensorflow", expect=STANDS_STILL),
        Case("tf-guarded", "workers:guarded", framework="tensorflow", expect=DETECTED),
    ],
)
