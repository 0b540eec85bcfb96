"""Gradients are clipped by the norm of the rank's own, before all are averaged."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=("reference", *DEFAULT_ORACLES),
    cases=[
        Case(
            "torch-alone",
            "own_numbers:clipping_alone",
            control="own_numbers:clipping_together",
            expect=silent(oracle="reference", step=1, cause="reference mismatch"),
        ),
        Case(
            "torch-together",
            "own_numbers:clipping_together",
            control="own_numbers:clipping_together",
            expect=SURVIVED,
        ),
        Case(
            "tf-alone",
            "numbers_workers:clipping_alone",
            framework="tensorflow",
            control="numbers_workers:clipping_together",
            expect=silent(oracle="reference", step=1, cause="reference mismatch"),
        ),
        Case(
            "tf-together",
            "numbers_workers:clipping_together",
            framework="tensorflow",
            control="numbers_workers:clipping_together",
            expect=SURVIVED,
        ),
    ],
)
