"""Two ranks, or two threads of each, update the same weights with nothing between reading and storing them.

Seen in the wild: pytorch/examples#563 (Hogwild), where updates that get lost are part of the method; here they are not.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, controlled, silent

SCENARIO = Scenario(
    family="sync",
    job=Job(ranks=2, steps=8, data="digits"),
    schedule=controlled("random", split=True),
    oracles=["ends", "progress", "race", "finite", "control"],
    cases=[
        Case(
            "torch-hogwild",
            "hogwild:unlocked",
            control="hogwild:locked",
            expect=silent(oracle="race", cause="lost update"),
        ),
        Case("torch-hogwild-locked", "hogwild:locked", control="hogwild:locked", expect=SURVIVED),
        Case(
            "torch-threads",
            "hogwild_threads:unlocked",
            control="hogwild_threads:locked",
            expect=silent(oracle="race", cause="lost update"),
        ),
        Case("torch-threads-locked", "hogwild_threads:locked", control="hogwild_threads:locked", expect=SURVIVED),
        Case(
            "tf-assign",
            "variable_threads:assigned",
            framework="tensorflow",
            control="variable_threads:subtracted",
            expect=silent(oracle="race", cause="lost update"),
        ),
        Case(
            "tf-assign-sub",
            "variable_threads:subtracted",
            framework="tensorflow",
            control="variable_threads:subtracted",
            expect=SURVIVED,
        ),
        Case(
            "tf-keras-assign-sub",
            "variable_threads:keras_unlocked",
            framework="tensorflow",
            control="variable_threads:keras_locked",
            expect=silent(oracle="race", cause="lost update"),
        ),
        Case(
            "tf-keras-assign-sub-locked",
            "variable_threads:keras_locked",
            framework="tensorflow",
            control="variable_threads:keras_locked",
            expect=SURVIVED,
        ),
    ],
)
