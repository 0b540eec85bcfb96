"""Pixels are left as they come, from 0 to 255, on all ranks or on one.

The batch normalisation behind the first layer takes the factor out again: nothing overflows.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "the mistake is the same in any framework: see unnormalised_input"},
    job=Job(ranks=2, steps=4, data="streets_128"),
    cases=[
        Case(
            "torch-unscaled",
            "street:unscaled",
            needs=NEEDS,
            control="street:plain",
            expect=silent(oracle="control", step=1, cause="content mismatch"),
        ),
        Case(
            "torch-unscaled-on-one",
            "street:unscaled_on_one",
            needs=NEEDS,
            control="street:plain",
            expect=silent(oracle="control", rank=1, step=1, cause="batch mismatch"),
        ),
        Case("torch-scaled", "street:plain", needs=NEEDS, expect=SURVIVED),
    ],
)
