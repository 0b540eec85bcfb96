"""One replica's gradients are missing from the update: it gives zeros, or a merge call leaves it out.

That no way leads from its gradients to the update is in the graph of the step, or is seen where the step runs operation
by operation. A replica that does not call the reduction at all, or with another shape, is told.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

#: Runs each function operation by operation.
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
