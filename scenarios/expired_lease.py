"""The clock of one rank is two hours ahead: a lease of another rank seems to have expired, and two ranks hold it."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, controlled, faults, silent

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=4, data="digits"),
    schedule=controlled("random"),
    strikes=[faults.JumpClock(seconds=7200) @ at(rank=1, step=2, point="backward")],
    oracles=["ends", "progress", "files", "finite", "replicas", "samples", "control", "checkpoint"],
    cases=[
        Case("torch-until-a-time", "leases:until_a_time", expect=silent(oracle="files", step=3, cause="file race")),
        Case("torch-until-the-end", "leases:until_the_end", expect=SURVIVED),
    ],
)
