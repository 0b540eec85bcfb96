"""Gradients are applied steps after they were taken: they were right for older weights."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="sync",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-stale",
            "mirrored:stale",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="control", rank=0, step=1, cause="stale gradients"),
        ),
        Case(
            "tf-stale-eagerly",
            "mirrored:stale",
            framework="tensorflow",
            control="mirrored:aggregating",
            environment={"BREAKRANK_RUN_FUNCTIONS_EAGERLY": "1"},
            expect=silent(oracle="control", rank=0, step=1, cause="stale gradients"),
        ),
        Case(
            "tf-up-to-date-eagerly",
            "mirrored:aggregating",
            framework="tensorflow",
            control="mirrored:aggregating",
            environment={"BREAKRANK_RUN_FUNCTIONS_EAGERLY": "1"},
            expect=SURVIVED,
        ),
        Case(
            "tf-up-to-date",
            "mirrored:aggregating",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=SURVIVED,
        ),
    ],
)
