"""A rank is frozen inside the gradients' reduction, as a container that is paused; no signal tells anybody.

Its peers wait for as long as their process group lets them, which is 30 minutes if nobody says otherwise.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, hung

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=[faults.Freeze() @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-by-hand", "averaging:plain", expect=hung(oracle="progress", rank=0, step=3, cause="peer stopped")),
        Case("torch-limited", "averaging:limited", expect=DETECTED),
        Case("torch-meeting", "averaging:met", expect=DETECTED),
    ],
)
