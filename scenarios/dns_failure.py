"""No name can be looked up from the host of rank 1 as the job begins: its questions to the name server are dropped.

Seen from the rank, the master might not exist. A program that takes this for a job without a master trains alone.

Seen in the wild: pytorch/pytorch#73682 (a name that is not known yet, and a rank that gives up at once:
`torch-known-master`).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, data="digits", patience_s=5.0),
    strikes=[faults.LoseNames() @ at(rank=1, step=0, point="start")],
    cases=[
        Case(
            "torch-own-master",
            "rendezvous:own_master",
            expect=silent(oracle="control", rank=1, cause="wrong result"),
        ),
        Case("torch-known-master", "rendezvous:known_master", expect=DETECTED),
    ],
)
