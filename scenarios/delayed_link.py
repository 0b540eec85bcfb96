"""A rank's packets leave its host later: always by the same time, or by a time that varies from packet to packet.

Training is slower, by two or three such delays for each collective, and the result is the same.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

DELAY = [faults.DelayPackets(ms=20.0) @ at(rank=1, step=2, point="collective")]
JITTER = [faults.DelayPackets(ms=10.0, jitter_ms=8.0) @ at(rank=1, step=2, point="collective")]

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=DELAY,
    cases=[
        Case("torch-delay", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-jitter", "digits_ddp:plain", strikes=JITTER, expect=SURVIVED),
    ],
)
