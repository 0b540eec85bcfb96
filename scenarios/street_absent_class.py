"""One rank's city has no trains, and the weight of a class is a share by how rare it is."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "the mistake is the same in any framework: tried with torch"},
    job=Job(ranks=2, steps=4, data="streets_128"),
    cases=[
        Case(
            "torch-weighing-all",
            "street_cities:weighing_all",
            needs=NEEDS,
            control="street_cities:weighing_what_there_is",
            expect=silent(oracle="finite", rank=1, step=1, cause="non-finite value"),
        ),
        Case("torch-weighing-what-there-is", "street_cities:weighing_what_there_is", needs=NEEDS, expect=SURVIVED),
    ],
)
