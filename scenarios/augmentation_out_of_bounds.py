"""An augmentation goes beyond the edges of an image, or of the numbers that it is made of.

A slice that goes too far is shorter without a word, an index below 0 counts from the other end, and a byte that is made
too large begins at 0 again.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

OTHER_CONTENTS = silent(oracle="control", step=1, cause="content mismatch")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, data="digits"),
    cases=[
        Case(
            "torch-cropping-beyond",
            "prepared:cropping_beyond",
            control="prepared:cropping_within",
            expect=DETECTED,
        ),
        Case(
            "torch-cropping-around",
            "prepared:cropping_around",
            control="prepared:cropping_within",
            expect=OTHER_CONTENTS,
        ),
        Case(
            "torch-cropping-within",
            "prepared:cropping_within",
            control="prepared:cropping_within",
            expect=SURVIVED,
        ),
        Case(
            "torch-brightening-bytes",
            "prepared:brightening_bytes",
            control="prepared:brightening_within",
            expect=OTHER_CONTENTS,
        ),
        Case(
            "torch-brightening-within",
            "prepared:brightening_within",
            control="prepared:brightening_within",
            expect=SURVIVED,
        ),
        Case(
            "tf-cropping-beyond",
            "prepared_workers:cropping_beyond",
            framework="tensorflow",
            control="prepared_workers:cropping_within",
            expect=DETECTED,
        ),
        Case(
            "tf-cropping-within",
            "prepared_workers:cropping_within",
            framework="tensorflow",
            control="prepared_workers:cropping_within",
            expect=SURVIVED,
        ),
        Case(
            "tf-rolling",
            "prepared_workers:rolling",
            framework="tensorflow",
            control="prepared_workers:moving",
            expect=silent(oracle="samples", step=1, cause="samples changed"),
        ),
        Case(
            "tf-moving",
            "prepared_workers:moving",
            framework="tensorflow",
            control="prepared_workers:moving",
            expect=SURVIVED,
        ),
        Case(
            "tf-brightening-bytes",
            "prepared_workers:brightening_bytes",
            framework="tensorflow",
            control="prepared_workers:brightening_within",
            expect=silent(oracle="samples", step=1, cause="samples changed"),
        ),
        Case(
            "tf-brightening-within",
            "prepared_workers:brightening_within",
            framework="tensorflow",
            control="prepared_workers:brightening_within",
            expect=SURVIVED,
        ),
    ],
)
