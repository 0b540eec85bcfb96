"""A checkpoint is cut off in the middle of a file: the write that crosses a limit lands in part, the next one fails.

Seen in the wild: Lightning-AI/pytorch-lightning#688 (a checkpoint that is written in place, and cut off).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.LimitFileSize(size=10_000) @ at(rank=0, step=4, point="save")],
    cases=[
        Case(
            "torch-in-place",
            "saving:in_place",
            expect=silent(oracle="checkpoint", rank=0, step=4, cause="no checkpoint"),
        ),
        Case("torch-aside", "saving:aside", expect=SURVIVED),
        Case("torch-unforgiving", "saving:unforgiving", expect=DETECTED),
    ],
)
