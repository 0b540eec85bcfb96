"""A rank's link goes down and comes back, twice, each time after somebody has sent in vain.

TCP bears it, and so does all that waits for TCP: no connection is lost, no time-out comes, and the result is the same.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.FlapLink(times=2) @ at(rank=1, step=3, point="collective")],
    cases=[
        Case("torch-plain", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-limited", "averaging:limited", expect=SURVIVED),
    ],
)
