"""Ranks are warned by a signal that their time is nearly up, and are told to go later on.

Slurm sends SIGUSR1 some seconds before the limit to a job with `--signal=USR1@60`, and SIGTERM at the limit.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

WARNED = faults.WarnOfTimeLimit() @ at(rank="all", step=3, point="backward")
TOLD_TO_GO = faults.Preempt() @ at(rank="all", step=5, point="backward")

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, restarts=1, data="digits"),
    strikes=[WARNED],
    cases=[
        Case(
            "torch-leaving-at-once",
            "preempted:warned_and_leaving",
            expect=silent(oracle="ends", cause="training incomplete"),
        ),
        Case("torch-finishing-the-step", "preempted:warned_and_finishing", expect=SURVIVED),
        Case(
            "torch-ignoring",
            "preempted:warned_and_ignoring",
            strikes=[WARNED, TOLD_TO_GO],
            expect=SURVIVED,
        ),
    ],
)
