"""A rank loses its connections to the store in which the ranks met, while they train.

Seen in the wild: pytorch/pytorch#128096 (the rank that holds the store leaves first, and what the others then read or
write fails).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="network",
    without={"tensorflow": "its workers meet at each other's servers, and no store"},
    job=Job(ranks=2, steps=5, data="digits"),
    strikes=[faults.LoseStore() @ at(rank=1, step=3, point="backward")],
    cases=[
        Case(
            "torch-counting",
            "rendezvous:counting",
            needs=("ptrace", "pidfd"),
            expect=silent(oracle="control", rank=0, cause="wrong result"),
        ),
        Case("torch-counting-or-not", "rendezvous:counting_or_not", needs=("ptrace", "pidfd"), expect=DETECTED),
        Case("torch-counting-again", "rendezvous:counting_again", needs=("ptrace", "pidfd"), expect=SURVIVED),
    ],
)
