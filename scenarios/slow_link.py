"""A rank's packets leave its host at 400 kbit a second: training is slow, and nothing is wrong with it.

A slow link looks like a dead one to a peer that waits; only a dead one is a reason to give up.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="network",
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.LimitBandwidth(kbit=400) @ at(rank=1, step=2, point="collective")],
    cases=[
        Case("torch-plain", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-by-hand", "averaging:plain", expect=SURVIVED),
        Case("tf-plain", "workers:plain", framework="tensorflow", expect=SURVIVED),
    ],
)
