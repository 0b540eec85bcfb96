"""Each rank scales its learning rate by the pixels, as others do by the tokens, of its own batches."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-by-own-pixels",
            "own_numbers:rate_by_own_pixels",
            control="own_numbers:rate_by_mean_pixels",
            expect=silent(oracle="replicas", cause="settings differ"),
        ),
        Case(
            "torch-by-mean-pixels",
            "own_numbers:rate_by_mean_pixels",
            control="own_numbers:rate_by_mean_pixels",
            expect=SURVIVED,
        ),
        Case(
            "tf-by-own-pixels",
            "own_numbers_workers:rate_by_own_pixels",
            framework="tensorflow",
            control="own_numbers_workers:rate_by_mean_pixels",
            expect=silent(oracle="replicas", cause="settings differ"),
        ),
        Case(
            "tf-by-mean-pixels",
            "own_numbers_workers:rate_by_mean_pixels",
            framework="tensorflow",
            control="own_numbers_workers:rate_by_mean_pixels",
            expect=SURVIVED,
        ),
    ],
)
