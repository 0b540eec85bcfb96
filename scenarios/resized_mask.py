"""A mask of classes is resized as an image is: a pixel between two classes gets the number of one that lies between.

If pixels of no class have a large number, some get one that is no class, and the loss objects.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, data="digits"),
    cases=[
        Case(
            "torch-as-an-image",
            "prepared:mask_as_an_image",
            control="prepared:mask_by_the_nearest",
            expect=silent(oracle="control", step=1, cause="content mismatch"),
        ),
        Case(
            "torch-by-the-nearest",
            "prepared:mask_by_the_nearest",
            control="prepared:mask_by_the_nearest",
            expect=SURVIVED,
        ),
        Case(
            "torch-ignored-as-an-image",
            "prepared:ignored_as_an_image",
            control="prepared:mask_by_the_nearest",
            expect=DETECTED,
        ),
        Case(
            "tf-as-an-image",
            "prepared_workers:mask_as_an_image",
            framework="tensorflow",
            control="prepared_workers:mask_by_the_nearest",
            expect=silent(oracle="samples", step=1, cause="samples changed"),
        ),
        Case(
            "tf-by-the-nearest",
            "prepared_workers:mask_by_the_nearest",
            framework="tensorflow",
            control="prepared_workers:mask_by_the_nearest",
            expect=SURVIVED,
        ),
        Case(
            "tf-unknown-as-an-image",
            "prepared_workers:unknown_as_an_image",
            framework="tensorflow",
            control="prepared_workers:mask_by_the_nearest",
            expect=DETECTED,
        ),
    ],
)
