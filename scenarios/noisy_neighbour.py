"""Other processes compute on the cores of a rank from a step on: it is late, and comes; that is never a hang.

Seen in the wild: pytorch/pytorch#22260 (processes with more threads than the machine has cores).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.CrowdCores() @ at(rank=1, step=3, point="forward")],
    cases=[
        Case("torch-ddp", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-by-hand", "averaging:plain", expect=SURVIVED),
    ],
)
