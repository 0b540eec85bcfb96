"""A stage is put on a device that is not there, or of a name that does not exist; or the devices come in another order.

With soft placement, TensorFlow takes another device without a word. Another order is no fault: the result is the same.

Seen in the wild: tensorflow/tensorflow#23697 (a device of a server that the process is not connected to:
`tf-missing-strictly`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="placement",
    without={"torch": "devices are named in the program, and a wrong one raises"},
    job=Job(ranks=1, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-missing",
            "stages:on_a_missing_device",
            framework="tensorflow",
            control="stages:staged",
            expect=silent(oracle="placement", rank=0, step=1, cause="device missing"),
        ),
        Case(
            "tf-missing-strictly",
            "stages:on_a_missing_device_strictly",
            framework="tensorflow",
            control="stages:staged",
            expect=DETECTED,
        ),
        Case("tf-misspelt", "stages:misspelt", framework="tensorflow", control="stages:staged", expect=DETECTED),
        Case("tf-reordered", "stages:reordered", framework="tensorflow", control="stages:staged", expect=SURVIVED),
    ],
)
