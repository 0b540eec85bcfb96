"""The folder of the checkpoints becomes read-only for the rank that saves, as after an error of its file system."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.RemountReadOnly(folder="checkpoints") @ at(rank=0, step=4, point="save")],
    cases=[
        Case("torch-met-if-saved", "saving:met_if_saved", expect=hung(oracle="progress")),
        Case("torch-met-anyway", "saving:met_anyway", expect=SURVIVED),
        Case("torch-unforgiving", "saving:unforgiving", expect=DETECTED),
    ],
)
