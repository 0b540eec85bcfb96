"""The replicas of one process diverge: each updates its own copy of the weights, or one copy alone is updated.

Or all update the same one, in turn, since it was made outside of the strategy's scope.

Seen in the wild: tensorflow/tensorflow#35601 (made under one strategy, and trained under another:
`tf-of-another-strategy`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="sync",
    without={"torch": "a process is one replica"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-unaggregated",
            "mirrored:unaggregated",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="replicas", rank=0, step=1, cause="unreduced assignment"),
        ),
        Case(
            "tf-in-one-component",
            "mirrored:in_one_component",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="replicas", rank=0, step=1, cause="unreduced assignment"),
        ),
        Case(
            "tf-outside-the-scope",
            "mirrored:outside_the_scope",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="placement", rank=0, step=1, cause="variable not mirrored"),
        ),
        Case(
            "tf-of-another-strategy",
            "mirrored:of_another_strategy",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=DETECTED,
        ),
        Case(
            "tf-aggregating",
            "mirrored:aggregating",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=SURVIVED,
        ),
    ],
)
