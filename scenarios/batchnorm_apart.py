"""Each rank has running statistics of batch norm for itself, and a checkpoint has those of one."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-of-each",
            "own_numbers:statistics_of_each",
            control="own_numbers:statistics_of_the_first",
            expect=silent(oracle="buffers", step=2, cause="buffers differ"),
        ),
        Case(
            "torch-of-the-first",
            "own_numbers:statistics_of_the_first",
            control="own_numbers:statistics_of_the_first",
            expect=SURVIVED,
        ),
        Case(
            "torch-of-all",
            "own_numbers:statistics_of_all",
            control="own_numbers:statistics_of_all",
            expect=SURVIVED,
        ),
        Case(
            "tf-of-each",
            "own_numbers_workers:statistics_of_each",
            framework="tensorflow",
            control="own_numbers_workers:statistics_of_all",
            expect=silent(oracle="buffers", step=1, cause="buffers differ"),
        ),
        Case(
            "tf-of-all",
            "own_numbers_workers:statistics_of_all",
            framework="tensorflow",
            control="own_numbers_workers:statistics_of_all",
            expect=SURVIVED,
        ),
    ],
)
