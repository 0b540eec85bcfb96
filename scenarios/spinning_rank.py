"""A rank computes for ever in a loop of Python: no look from outside can tell that from work.

Only the deadline ends it, unless its peers do not wait for ever.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung

SPINS = hung(oracle="progress", step=3, cause="no progress")

SCENARIO = Scenario(
    family="process",
    job=Job(ranks=2, steps=6, data="digits", deadline_s=4.0, patience_s=5.0),
    strikes=[faults.Spin() @ at(rank=1, step=3, point="backward")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=SPINS),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case("tf-plain", "workers:plain", framework="tensorflow", expect=SPINS),
        Case("tf-guarded", "workers:guarded", framework="tensorflow", expect=DETECTED),
    ],
)
