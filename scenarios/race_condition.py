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
    ],
)
