"""A rank has no descriptor left when it wants to read its next samples."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.LimitFiles() @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-skipping",
            "reading:skipping",
            expect=silent(oracle="control", rank=1, step=3, cause="batch mismatch"),
        ),
        Case("torch-plain", "reading:plain", expect=DETECTED),
        Case("torch-kept-open", "reading:kept_open", expect=SURVIVED),
    ],
)
