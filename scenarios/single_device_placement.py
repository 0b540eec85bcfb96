"""Everything that is trained lies on one of two devices: the other one has nothing to do, and memory to spare."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="placement",
    without={"torch": "devices are named in the program, and a wrong one raises"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-on-one-device",
            "stages:on_one_device",
            framework="tensorflow",
            control="stages:staged",
            expect=silent(oracle="placement", rank=0, step=1, cause="single device"),
        ),
        Case("tf-staged", "stages:staged", framework="tensorflow", control="stages:staged", expect=SURVIVED),
        Case(
            "tf-on-one-of-two",
            "mirrored:on_one_of_two",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=silent(oracle="placement", rank=0, step=1, cause="single device"),
        ),
        Case(
            "tf-mirrored",
            "mirrored:aggregating",
            framework="tensorflow",
            control="mirrored:aggregating",
            expect=SURVIVED,
        ),
    ],
)
