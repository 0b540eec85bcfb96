"""Windows that are cut out of one rank's scenes reach beyond them.

Pillow fills what is missing with 0: black in the image, and a road in the mask. Windows that are cut by slicing come
out smaller, and do not fit into a batch.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "its crops check their bounds: an error"},
    job=Job(ranks=2, steps=4, data="streets_128"),
    cases=[
        Case(
            "torch-by-pillow",
            "street_cities:cut_by_pillow",
            needs=NEEDS,
            control="street_cities:cut_within",
            expect=silent(oracle="control", rank=1, step=2, cause="batch mismatch"),
        ),
        Case("torch-by-slices", "street_cities:cut_by_slices", needs=NEEDS, expect=DETECTED),
        Case("torch-within", "street_cities:cut_within", needs=NEEDS, expect=SURVIVED),
    ],
)
