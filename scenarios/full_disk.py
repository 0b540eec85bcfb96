"""The disk of the rank that saves is full but for a few kilobytes: a checkpoint is begun and cannot be finished.

Seen in the wild: pytorch/pytorch#10577 and mlfoundations/open_lm#154 (a full disk, seen as an error of torch.save that
does not say so, with the last checkpoint gone: `torch-in-place`, `torch-unforgiving`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.FillDisk(folder="checkpoints", room_kb=4) @ at(rank=0, step=4, point="save")],
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
