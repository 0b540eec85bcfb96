"""Wrong on purpose: one bit of one replica's weights flips, and the case passes only if an oracle objects.

DDP broadcasts the parameters once, in its constructor, so that what flips later stays in its replica for good.
"""

from __future__ import annotations

from breakrank import Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="numeric",
    without={"tensorflow": "one canary is enough"},
    job=Job(ranks=2, steps=8, data="digits"),
    strikes=[faults.FlipBit() @ at(rank=1, step=3, point="step")],
    cases=[
        Case(
            "torch-ddp",
            "digits_ddp:plain",
            expect=silent(oracle="replicas", rank=1, step=3, cause="replicas differ"),
        ),
    ],
)
