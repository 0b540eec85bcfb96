"""Each rank averages the models of the training at a pace of its own: the averages differ, and the models do not."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-by-own-pixels",
            "own_numbers:averaged_by_own_pixels",
            control="own_numbers:averaged_by_mean_pixels",
            expect=silent(oracle="buffers", cause="averages differ"),
        ),
        Case(
            "torch-by-mean-pixels",
            "own_numbers:averaged_by_mean_pixels",
            control="own_numbers:averaged_by_mean_pixels",
            expect=SURVIVED,
        ),
        Case(
            "tf-by-own-pixels",
            "own_numbers_workers:averaged_by_own_pixels",
            framework="tensorflow",
            control="own_numbers_workers:averaged_by_mean_pixels",
            expect=silent(oracle="buffers", step=2, cause="buffers differ"),
        ),
        Case(
            "tf-by-mean-pixels",
            "own_numbers_workers:averaged_by_mean_pixels",
            framework="tensorflow",
            control="own_numbers_workers:averaged_by_mean_pixels",
            expect=SURVIVED,
        ),
    ],
)
