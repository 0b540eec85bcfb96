"""A thread saves the living tensors while training goes on: the checkpoint is half of one step and half of the next.

A rank is killed later on, and the job resumes with it.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "copies its variables before a thread writes them"},
    job=Job(ranks=2, steps=8, data="digits", restarts=1),
    strikes=[faults.Kill() @ at(rank=0, step=6, point="collective")],
    cases=[
        Case("torch-living", "saved_aside:living", expect=silent(oracle="control", step=1, cause="wrong result")),
        Case("torch-copied", "saved_aside:copied", expect=SURVIVED),
    ],
)
