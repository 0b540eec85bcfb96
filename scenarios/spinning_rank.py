"""A rank computes for ever in a loop of Python: no look from outside can tell that from work.

Only the deadline ends it, unless its peers do not wait for ever.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck in Python, outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits", deadline_s=4.0, patience_s=5.0),
    strikes=[faults.Spin() @ at(rank=1, step=3, point="backward")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", step=3, cause="no progress")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
    ],
)
