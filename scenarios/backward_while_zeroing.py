"""Gradients are dropped while the backward passes of other threads still add to them.

Seen in the wild: pytorch/pytorch#1868 (backward passes in several threads that end in a segmentation fault at times).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "gradients are values that nothing keeps"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-zeroing-while-backward",
            "freed:zeroing_while_backward",
            control="freed:zeroing_between_backwards",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-zeroing-between-backwards", "freed:zeroing_between_backwards", expect=SURVIVED),
    ],
)
