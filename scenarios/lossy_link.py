"""A rank's link loses packets, in both directions: every fifth, or a tenth of them drawn from a seed.

TCP sends again what was lost, so that training is slower and the result is the same.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

EVERY_FIFTH = [faults.LosePackets(every=5) @ at(rank=1, step=2, point="collective")]
A_TENTH = [faults.LosePackets(share=0.1) @ at(rank=1, step=2, point="collective")]

SCENARIO = Scenario(
    family="network",
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=EVERY_FIFTH,
    cases=[
        Case("torch-every-fifth", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-a-tenth", "digits_ddp:plain", strikes=A_TENTH, expect=SURVIVED),
    ],
)
