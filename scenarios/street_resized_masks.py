"""Masks are resized like images: a label at an edge is a number between those of its neighbours.

The number is no class, or the class of something else.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=4, data="streets_128"),
    cases=[
        Case("torch-blending", "street:blending_masks", needs=NEEDS, expect=DETECTED),
        Case(
            "torch-clamping",
            "street:clamping_blended_masks",
            needs=NEEDS,
            control="street:picking_masks",
            expect=silent(oracle="control", step=1, cause="content mismatch"),
        ),
        Case("torch-picking", "street:picking_masks", needs=NEEDS, expect=SURVIVED),
        Case(
            "tf-blending",
            "street_keras:blending_masks",
            framework="tensorflow",
            needs=("PIL",),
            control="street_keras:picking_masks",
            expect=silent(oracle="samples", step=1, cause="samples changed"),
        ),
        Case("tf-picking", "street_keras:picking_masks", framework="tensorflow", needs=("PIL",), expect=SURVIVED),
    ],
)
