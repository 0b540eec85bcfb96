"""The time limit of a job comes near, and its cluster sends the warning that the job has asked for.

The job is submitted as with `sbatch --time=60 --signal=USR1@900`: the warning is due 900 s before the limit.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

ASKED = {"SBATCH_TIMELIMIT": "60", "SBATCH_SIGNAL": "USR1@900"}

SCENARIO = Scenario(
    family="cluster",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, restarts=1, data="digits"),
    strikes=[faults.NearTimeLimit(seconds=900) @ at(rank="all", step=3, point="backward")],
    cases=[
        Case(
            "torch-leaving-at-once",
            "preempted:warned_and_leaving",
            expect=silent(oracle="ends", cause="training incomplete"),
            environment=ASKED,
        ),
        Case("torch-finishing-the-step", "preempted:warned_and_finishing", expect=SURVIVED, environment=ASKED),
    ],
)
