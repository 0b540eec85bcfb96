"""A list of layers is one layer, repeated: what reads as two layers is one memory, updated twice a step."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="placement",
    without={"torch": "weights that are tied are one parameter, as people want it"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-twice-the-same",
            "stages:twice_the_same",
            framework="tensorflow",
            control="stages:staged",
            expect=silent(oracle="placement", rank=0, step=1, cause="aliased parameters"),
        ),
        Case("tf-two-layers", "stages:staged", framework="tensorflow", control="stages:staged", expect=SURVIVED),
    ],
)
