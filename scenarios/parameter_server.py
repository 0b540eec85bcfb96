"""A task under ParameterServerStrategy is lost: a worker, whose work another one does, or the server of the weights.

A worker that stands still is never given up: the coordinator waits for what it has been told to do.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung

TASKS = {"BREAKRANK_TASKS": "chief,worker,worker,ps"}
WORKER, SERVER = at(rank=1, step=3), at(rank=3, step=3)

SCENARIO = Scenario(
    family="process",
    job=Job(ranks=4, steps=6, deadline_s=8.0, data="digits"),
    cases=[
        Case(
            f"tf-{name}",
            "servers:train",
            framework="tensorflow",
            environment=TASKS,
            strikes=(strike,),
            expect=expect,
        )
        for name, strike, expect in (
            ("killed-worker", faults.Kill() @ WORKER, SURVIVED),
            ("killed-server", faults.Kill() @ SERVER, DETECTED),
            ("stopped-worker", faults.Stop() @ WORKER, hung(oracle="progress", rank=0, cause="no progress")),
        )
    ],
)
