"""Each rank numbers the classes by its own samples: one number is another class on each rank."""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, data="digits"),
    cases=[
        Case(
            "torch-classes-of-the-shard",
            "prepared:classes_of_the_shard",
            control="prepared:classes_of_rank_0",
            expect=silent(oracle="control", rank=1, step=1, cause="batch mismatch"),
        ),
        Case(
            "torch-classes-of-rank-0",
            "prepared:classes_of_rank_0",
            control="prepared:classes_of_rank_0",
            expect=SURVIVED,
        ),
        Case(
            "torch-classes-compared",
            "prepared:classes_compared",
            control="prepared:classes_of_rank_0",
            expect=DETECTED,
        ),
        Case(
            "tf-classes-of-the-shard",
            "prepared_workers:classes_of_the_shard",
            framework="tensorflow",
            control="prepared_workers:classes_of_all",
            expect=silent(oracle="samples", step=1, cause="samples changed"),
        ),
        Case(
            "tf-classes-of-all",
            "prepared_workers:classes_of_all",
            framework="tensorflow",
            control="prepared_workers:classes_of_all",
            expect=SURVIVED,
        ),
    ],
)
