"""A single scene is left over for one rank's last batch, and batch normalisation has one value per channel.

DeepLab averages each channel over the whole image, and normalises that. torch refuses; Keras normalises it to nothing,
and trains on.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=4, data="streets_128"),
    cases=[
        Case("torch-left-over", "street_cities:left_over", needs=NEEDS, expect=DETECTED),
        Case(
            "torch-skipping",
            "street_cities:left_over_skipping",
            needs=NEEDS,
            control="street_cities:dropping_the_last",
            expect=hung(oracle="progress", step=3, cause="participant missing"),
        ),
        Case("torch-dropping", "street_cities:dropping_the_last", needs=NEEDS, expect=SURVIVED),
        Case(
            "tf-left-over",
            "street_keras:left_over",
            framework="tensorflow",
            needs=("PIL",),
            control="street_keras:dropping_the_last",
            expect=silent(oracle="samples", rank=1, step=3, cause="samples changed"),
        ),
        Case("tf-dropping", "street_keras:dropping_the_last", framework="tensorflow", needs=("PIL",), expect=SURVIVED),
    ],
)
