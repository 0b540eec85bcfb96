"""The memory of a rank is taken away at each step, as if there were too little: the rank is late, and never wrong."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.PageOut() @ at(rank=1, step=step, point="forward") for step in range(2, 7)],
    cases=[
        Case("torch-ddp", "paged:by_ddp", expect=SURVIVED),
        Case("torch-by-hand", "paged:by_hand", expect=SURVIVED),
    ],
)
