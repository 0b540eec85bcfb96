"""A step of a job is sent SIGUSR1 by its owner, which tells it to save and to start again."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="cluster",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, restarts=1, data="digits"),
    strikes=[faults.SignalStep() @ at(rank="all", step=3, point="backward")],
    cases=[
        Case(
            "torch-leaving-at-once",
            "preempted:warned_and_leaving",
            expect=silent(oracle="ends", cause="training incomplete"),
        ),
        Case("torch-finishing-the-step", "preempted:warned_and_finishing", expect=SURVIVED),
    ],
)
