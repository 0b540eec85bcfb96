"""All ranks have one seed, and drop the same elements in every step.

The result is told to be another one, and no cause is named: the state of a rank's generator is not on record, and one
seed for all ranks is no mistake in itself.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-alike",
            "own_numbers:dropping_alike",
            control="own_numbers:dropping_apart",
            expect=silent(oracle="control", step=1, cause="wrong result"),
        ),
        Case(
            "torch-apart",
            "own_numbers:dropping_apart",
            control="own_numbers:dropping_apart",
            expect=SURVIVED,
        ),
        Case(
            "tf-alike",
            "numbers_workers:dropping_alike",
            framework="tensorflow",
            control="numbers_workers:dropping_apart",
            expect=silent(oracle="control", step=1, cause="wrong result"),
        ),
        Case(
            "tf-apart",
            "numbers_workers:dropping_apart",
            framework="tensorflow",
            control="numbers_workers:dropping_apart",
            expect=SURVIVED,
        ),
    ],
)
