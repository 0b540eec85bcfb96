"""A job that was killed resumes with the newest checkpoint by name, where step-10 comes before step-9."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "names the last checkpoint in a file of its own, and is asked for that one"},
    job=Job(ranks=2, steps=12, data="digits", restarts=1),
    strikes=[faults.Kill() @ at(rank=0, step=11, point="save")],
    cases=[
        Case("torch-by-name", "newest:by_name", expect=silent(oracle="checkpoint", step=0, cause="older checkpoint")),
        Case("torch-by-step", "newest:by_step", expect=SURVIVED),
    ],
)
