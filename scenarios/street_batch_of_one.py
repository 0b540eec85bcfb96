"""A single scene is left over for one rank's last batch, and batch normalisation has one value per channel.

DeepLab averages each channel over the whole image, and normalises that.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "not yet"},
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
    ],
)
