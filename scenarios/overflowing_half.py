"""Gradients fit into half precision on each rank, and the sum of all ranks' does not."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=("collectives", *DEFAULT_ORACLES),
    cases=[
        Case(
            "torch-sums",
            "precision:sums_in_half",
            control="precision:means_in_half",
            expect=silent(oracle="collectives", step=1, cause="sum overflowed"),
        ),
        Case("torch-means", "precision:means_in_half", control="precision:means_in_half", expect=SURVIVED),
        Case(
            "tf-sums",
            "numbers_workers:sums_in_half",
            framework="tensorflow",
            control="numbers_workers:means_in_half",
            expect=silent(oracle="finite", step=1, cause="non-finite value"),
        ),
        Case(
            "tf-means",
            "numbers_workers:means_in_half",
            framework="tensorflow",
            control="numbers_workers:means_in_half",
            expect=SURVIVED,
        ),
    ],
)
