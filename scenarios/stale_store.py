"""A job is started again, and its ranks meet in the file of the attempt before, which still has its old entries.

Seen in the wild: pytorch/pytorch#135712 (a restart reads the keys of the attempt before), pytorch/pytorch#13865 (a file
that is left holds old values) and tier4/Diffusion-Planner#PR335 (a fixed name that two jobs share).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "its workers meet at each other's servers, and no store"},
    job=Job(ranks=2, steps=5, restarts=1, deadline_s=5.0, data="digits"),
    strikes=[faults.Kill() @ at(rank=1, step=2, point="optimize")],
    cases=[
        Case("torch-one-file", "rendezvous:one_file", expect=silent(oracle="ends", cause="training incomplete")),
        Case("torch-a-file-for-each-attempt", "rendezvous:a_file_for_each_attempt", expect=SURVIVED),
    ],
)
