"""Numbers are added up in half precision: small ones are lost in the sum, and a large sum has no number."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=("collectives", "reference", *DEFAULT_ORACLES),
    cases=[
        Case(
            "torch-gradients",
            "precision:adds_up_in_half",
            control="precision:adds_up_in_single",
            expect=silent(oracle="reference", step=1, cause="reference mismatch"),
        ),
        Case(
            "torch-gradients-in-single",
            "precision:adds_up_in_single",
            control="precision:adds_up_in_single",
            expect=SURVIVED,
        ),
        Case(
            "torch-counts",
            "precision:counts_in_half",
            control="precision:counts_in_single",
            expect=silent(oracle="collectives", step=1, cause="sum overflowed"),
        ),
        Case(
            "torch-counts-in-single",
            "precision:counts_in_single",
            control="precision:counts_in_single",
            expect=SURVIVED,
        ),
        Case(
            "tf-gradients",
            "numbers_workers:adds_up_in_half",
            framework="tensorflow",
            control="numbers_workers:adds_up_in_single",
            expect=silent(oracle="reference", step=1, cause="reference mismatch"),
        ),
        Case(
            "tf-gradients-in-single",
            "numbers_workers:adds_up_in_single",
            framework="tensorflow",
            control="numbers_workers:adds_up_in_single",
            expect=SURVIVED,
        ),
    ],
)
