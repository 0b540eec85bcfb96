"""A rank waits in a call into C that keeps the GIL: none of its other threads can end the wait.

The peers wait for it as for any other rank that does not come.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck in Python, outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits", deadline_s=8.0, patience_s=5.0),
    strikes=[faults.HoldGil() @ at(rank=1, step=3, point="backward")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", step=3, cause="blocked in a lock")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case(
            "torch-held",
            "locked:held",
            strikes=(),
            control="locked:given_up",
            expect=hung(oracle="progress", step=3, cause="blocked in a lock"),
        ),
        Case("torch-given-up", "locked:given_up", strikes=(), control="locked:given_up", expect=SURVIVED),
    ],
)
