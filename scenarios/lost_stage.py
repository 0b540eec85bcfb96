"""A stage of a pipeline is killed, stopped or late, or goes on from another state than the stages beside it.

A stage that waits names the stage that it waits for. Of a job that was started again, stages that each take their own
last state are of several steps, and no message between them says so.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung, silent

KILLED = [faults.Kill() @ at(rank=1, step=3, point="collective")]
STOPPED = [faults.Stop() @ at(rank=1, step=3, point="collective")]
LATE = [faults.Straggle(seconds=0.5, asleep=True) @ at(rank=1, step=3, point="collective")]
KILLED_SAVING = [faults.Kill() @ at(rank=1, step=3, point="save")]

# The two cases that go on again are of two stages: of more, it is up to the timing which step each has saved last.
STANDS = hung(oracle="progress", step=3, cause="peer stopped")

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "it has no pipelines"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=KILLED,
    cases=[
        Case("torch-killed", "pipeline:filled_and_drained", expect=DETECTED),
        Case("torch-killed-one-and-one", "pipeline:one_and_one", expect=DETECTED),
        Case("torch-stopped", "pipeline:filled_and_drained", strikes=STOPPED, expect=STANDS),
        Case("torch-stopped-one-and-one", "pipeline:one_and_one", strikes=STOPPED, expect=STANDS),
        Case("torch-stopped-limited", "pipeline:limited", strikes=STOPPED, patience_s=5.0, expect=DETECTED),
        Case("torch-late", "pipeline:filled_and_drained", strikes=LATE, expect=SURVIVED),
        Case(
            "torch-own-last",
            "pipeline:from_own_last",
            strikes=KILLED_SAVING,
            restarts=1,
            sizes=(2,),
            expect=silent(oracle="ends", rank=1, step=3, cause="training incomplete"),
        ),
        Case(
            "torch-common-last",
            "pipeline:from_common_last",
            strikes=KILLED_SAVING,
            restarts=1,
            sizes=(2,),
            expect=SURVIVED,
        ),
    ],
)
