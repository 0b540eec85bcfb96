"""A rank's link loses packets: every fifth, or a tenth of them drawn from a seed; or doubles or damages packets.

TCP sends again what was lost or damaged and throws away what came twice, so that training is slower, and no more.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

EVERY_FIFTH = [faults.LosePackets(every=5) @ at(rank=1, step=2, point="collective")]
A_TENTH = [faults.LosePackets(share=0.1) @ at(rank=1, step=2, point="collective")]
DOUBLED = [faults.DuplicatePackets(share=0.5) @ at(rank=1, step=2, point="collective")]
DAMAGED = [faults.DamagePackets(share=0.2) @ at(rank=1, step=2, point="collective")]

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=EVERY_FIFTH,
    cases=[
        Case("torch-every-fifth", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-a-tenth", "digits_ddp:plain", strikes=A_TENTH, expect=SURVIVED),
        Case("torch-doubled", "digits_ddp:plain", strikes=DOUBLED, expect=SURVIVED),
        Case("torch-damaged", "digits_ddp:plain", strikes=DAMAGED, expect=SURVIVED),
    ],
)
