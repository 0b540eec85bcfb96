"""The files of two ranks change places before a job goes on: each takes in the shards of the other, which fit.

As where hosts get their files back from an archive, and the launcher gives them other numbers than before.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "its strategies keep replicas, whose files are alike"},
    job=Job(ranks=2, steps=7, data="digits", restarts=1),
    strikes=[
        # The first collective after the fourth step is the meeting of all ranks that have saved.
        faults.ExchangeFiles(path="shard-*-step-4.pt") @ at(rank=0, step=5, point="collective", visit=2),
        faults.Kill() @ at(rank=0, step=5, point="optimize"),
    ],
    cases=[
        Case(
            "torch-trusting",
            "own_shards:trusting",
            expect=silent(oracle="checkpoint", step=0, cause="state of another"),
        ),
        Case("torch-refusing", "own_shards:refusing", expect=DETECTED),
        Case("torch-looking", "own_shards:looking", expect=SURVIVED),
    ],
)
