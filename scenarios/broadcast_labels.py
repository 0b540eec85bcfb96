"""The labels of one worker are a column, and those of the others a row: its loss compares every pair of samples.

Nothing fails: the difference of a row and a column is a square matrix.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "its losses refuse labels of another shape, or warn"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-in-a-column",
            "mirrored_workers:labels_in_a_column",
            framework="tensorflow",
            control="mirrored_workers:labels_in_a_row",
            expect=silent(oracle="control", rank=1, step=1, cause="batch mismatch"),
        ),
        Case(
            "tf-in-a-row",
            "mirrored_workers:labels_in_a_row",
            framework="tensorflow",
            control="mirrored_workers:labels_in_a_row",
            expect=SURVIVED,
        ),
    ],
)
