"""The step is called, and not run by the strategy: of several replicas one computes, on its part of each batch."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="placement",
    without={"torch": "a process is one replica"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-without-run",
            "mirrored:without_run",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="placement", rank=0, step=1, cause="strategy bypassed"),
        ),
        Case("tf-run", "mirrored:aggregating", framework="tensorflow", control="mirrored:aggregating", expect=SURVIVED),
    ],
)
