"""A buffer is resized while another thread reads it."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its tensors cannot be changed in place, and own their memory"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-growing-while-read",
            "freed:growing_while_read",
            control="freed:growing_between_reads",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-growing-between-reads", "freed:growing_between_reads", expect=SURVIVED),
    ],
)
