"""A task under ParameterServerStrategy is lost: a worker, whose work another one does, or the server of the weights.

A worker that stands still is never given up: the coordinator waits for the work that it has scheduled. If it raises
instead, it cannot end either, since TensorFlow has each worker forget the functions that Python finalizes.

Seen in the wild: tensorflow/tensorflow#15660 (a worker is lost, and today another one does its work:
`tf-killed-worker`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung

TASKS = {"BREAKRANK_TASKS": "chief,worker,worker,ps"}
WORKER, SERVER = at(rank=1, step=3), at(rank=3, step=3)
STALLED = hung(oracle="progress", rank=0, cause="no progress")

SCENARIO = Scenario(
    family="process",
    without={"torch": "it has none"},
    job=Job(ranks=4, steps=6, deadline_s=8.0, data="digits"),
    cases=[
        Case(
            f"tf-{name}",
            f"servers:{program}",
            framework="tensorflow",
            sizes=(4,),
            environment=TASKS,
            strikes=(strike,),
            expect=expect,
        )
        for name, program, strike, expect in (
            ("killed-worker", "plain", faults.Kill() @ WORKER, SURVIVED),
            ("killed-server", "plain", faults.Kill() @ SERVER, DETECTED),
            ("stopped-worker", "plain", faults.Stop() @ WORKER, STALLED),
            ("stopped-worker-raising", "raising", faults.Stop() @ WORKER, STALLED),
            ("stopped-worker-limited", "limited", faults.Stop() @ WORKER, DETECTED),
        )
    ],
)
