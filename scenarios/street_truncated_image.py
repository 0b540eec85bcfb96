"""Only the first half of one rank's image is on the disk.

Pillow refuses such an image, unless it is told to take what is there; the rest of the image is then black.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=4, data="streets_128"),
    # The images of the last rank come last in the order of names; its ninth is the first of its third batch.
    strikes=[faults.CutFile(path="leftImg8bit/train/*/*_000008_*") @ at(rank="last", point="start")],
    cases=[
        Case(
            "torch-lenient",
            "street_cities:lenient",
            needs=NEEDS,
            expect=silent(oracle="control", rank=-1, step=3, cause="batch mismatch"),
        ),
        Case("torch-strict", "street_cities:strict", needs=NEEDS, expect=DETECTED),
        Case(
            "tf-ignoring-errors",
            "street_keras:ignoring_errors",
            framework="tensorflow",
            needs=("PIL",),
            expect=silent(oracle="control", rank=-1, step=3, cause="batch mismatch"),
        ),
        Case("tf-strict", "street_keras:strict", framework="tensorflow", needs=("PIL",), expect=DETECTED),
    ],
)
