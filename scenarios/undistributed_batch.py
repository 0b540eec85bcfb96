"""One batch is handed to `strategy.run` as it is: every replica computes on the same one.

A batch of an unexpected shape or dtype raises an error as it meets the weights; nothing crashes.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "a rank loads its own batch"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-undistributed",
            "mirrored:undistributed",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="placement", rank=0, step=1, cause="batch not split"),
        ),
        Case(
            "tf-undistributed-and-narrow",
            "mirrored:undistributed_and_narrow",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=DETECTED,
        ),
        Case(
            "tf-undistributed-and-double",
            "mirrored:undistributed_and_double",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=DETECTED,
        ),
        Case(
            "tf-distributed",
            "mirrored:aggregating",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=SURVIVED,
        ),
    ],
)
