"""New weights are put in the place of those that another thread reads."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its tensors cannot be changed in place, and own their memory"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-swapping-while-read",
            "freed:swapping_while_read",
            control="freed:swapping_between_reads",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-swapping-between-reads", "freed:swapping_between_reads", expect=SURVIVED),
    ],
)
