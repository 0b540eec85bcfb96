"""Two ranks are in two groups and use them in opposite order: each waits in a group that the other has not come to."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, hung

SCENARIO = Scenario(
    family="collectives",
    without={"tensorflow": "a worker is in one group of its strategy"},
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-crossed",
            "crossing:crossed",
            control="crossing:in_one_order",
            expect=hung(oracle="progress", step=3, cause="crossed process groups"),
        ),
        Case("torch-one-order", "crossing:in_one_order", control="crossing:in_one_order", expect=SURVIVED),
    ],
)
