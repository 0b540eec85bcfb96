"""A shard that one rank has mapped is written anew by another, and gets shorter."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "it maps no shard, and reads it"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-truncating",
            "mapped:truncating",
            control="mapped:rotating",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-rotating", "mapped:rotating", expect=SURVIVED),
    ],
)
