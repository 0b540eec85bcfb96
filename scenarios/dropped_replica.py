"""One replica's gradients are missing from the update: it gives zeros, or a merge call leaves it out.

The graph of the step shows that no path leads from its gradients to the update; a step that runs operation by operation
shows it as it runs. A replica that does not call the reduction, or with another shape, gets an error.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

#: The setting that runs each function operation by operation.
EAGERLY = {"BREAKRANK_RUN_FUNCTIONS_EAGERLY": "1"}

SCENARIO = Scenario(
    family="numeric",
    without={"torch": "a process is one replica"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-contributing-nothing",
            "mirrored:contributing_nothing",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="control", rank=0, step=1, cause="replica not aggregated"),
        ),
        Case(
            "tf-dropped-in-a-merge-call",
            "mirrored:dropping_a_replica",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="control", rank=0, step=1, cause="replica not aggregated"),
        ),
        Case("tf-merging", "mirrored:merging", framework="tensorflow", control="mirrored:aggregating", expect=SURVIVED),
        Case(
            "tf-contributing-nothing-eagerly",
            "mirrored:contributing_nothing",
            framework="tensorflow",
            control="mirrored:aggregating",
            environment=EAGERLY,
            expect=silent(oracle="control", rank=0, step=1, cause="replica not aggregated"),
        ),
        Case(
            "tf-dropped-in-a-merge-call-eagerly",
            "mirrored:dropping_a_replica",
            framework="tensorflow",
            control="mirrored:aggregating",
            environment=EAGERLY,
            expect=silent(oracle="control", rank=0, step=1, cause="replica not aggregated"),
        ),
        Case(
            "tf-merging-eagerly",
            "mirrored:merging",
            framework="tensorflow",
            control="mirrored:aggregating",
            environment=EAGERLY,
            expect=SURVIVED,
        ),
        Case(
            "tf-one-calls",
            "mirrored:one_calls",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=DETECTED,
        ),
        Case(
            "tf-unequal-shapes",
            "mirrored:unequal_shapes",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=DETECTED,
        ),
    ],
)
