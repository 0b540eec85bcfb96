"""A validation is filled up so that all ranks have as many samples: some of them count twice in the result.

Seen in the wild: pytorch/pytorch#25162 (a sampler that repeats samples, and an accuracy that is wrong) and
pytorch/vision#4559 (the same with a shuffle: another accuracy in each run).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

COUNTED_TWICE = silent(oracle="samples", step=5, cause="counted twice")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples", "control"),
    cases=[
        Case("torch-padded", "validating:padded", control="validating:shared_out_exactly", expect=COUNTED_TWICE),
        Case(
            "torch-padded-and-shuffled",
            "validating:padded_and_shuffled",
            control="validating:shared_out_exactly",
            expect=COUNTED_TWICE,
        ),
        Case(
            "torch-shared-out-exactly",
            "validating:shared_out_exactly",
            control="validating:shared_out_exactly",
            expect=SURVIVED,
        ),
        Case("torch-cut-off", "validating:cut_off", control="validating:cut_off", expect=SURVIVED),
        Case(
            "tf-repeated",
            "validating_workers:repeated",
            framework="tensorflow",
            control="validating_workers:as_many_as_there_are",
            expect=silent(oracle="samples", step=5, cause="validated otherwise"),
        ),
        Case(
            "tf-filled-up",
            "validating_workers:filled_up",
            framework="tensorflow",
            control="validating_workers:as_many_as_there_are",
            expect=silent(oracle="samples", step=5, cause="validated otherwise"),
        ),
        Case(
            "tf-without-the-rest",
            "validating_workers:without_the_rest",
            framework="tensorflow",
            control="validating_workers:as_many_as_there_are",
            expect=silent(oracle="samples", step=5, cause="validated otherwise"),
        ),
        Case(
            "tf-as-many-as-there-are",
            "validating_workers:as_many_as_there_are",
            framework="tensorflow",
            control="validating_workers:as_many_as_there_are",
            expect=SURVIVED,
        ),
    ],
)
