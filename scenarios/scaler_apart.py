"""Ranks scale their losses apart, as for gradients that would vanish in half precision, or skip a step alone.

Seen in the wild: pytorch/pytorch#136009 (the scale differs on one rank, and the weights drift).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-restored-by-one",
            "precision:scale_restored_by_one",
            control="precision:scale_restored_by_all",
            expect=silent(oracle="optimizers", step=1, cause="loss scale differs"),
        ),
        Case(
            "torch-restored-by-all",
            "precision:scale_restored_by_all",
            control="precision:scale_restored_by_all",
            expect=SURVIVED,
        ),
        Case(
            "torch-skipping-alone",
            "precision:skipping_alone",
            control="precision:skipping_together",
            expect=silent(oracle="replicas", step=3, rank=1, cause="step skipped"),
        ),
        Case(
            "torch-skipping-together",
            "precision:skipping_together",
            control="precision:skipping_together",
            expect=SURVIVED,
        ),
        Case(
            "tf-skipping-alone",
            "numbers_workers:skipping_alone",
            framework="tensorflow",
            control="numbers_workers:skipping_together",
            expect=silent(oracle="replicas", step=3, cause="replicas differ"),
        ),
        Case(
            "tf-skipping-together",
            "numbers_workers:skipping_together",
            framework="tensorflow",
            control="numbers_workers:skipping_together",
            expect=SURVIVED,
        ),
    ],
)
