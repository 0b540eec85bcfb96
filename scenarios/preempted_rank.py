"""A rank is told to go in the middle of a step, by SIGTERM and with grace, and the job is started again."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, restarts=1, data="digits"),
    strikes=[faults.Preempt() @ at(rank=0, step=4, point="backward")],
    cases=[
        Case("torch-at-once", "preempted:at_once", expect=silent(oracle="ends", cause="training incomplete")),
        Case("torch-forgetful", "digits_ddp:forgetful", expect=silent(oracle="samples", cause="samples duplicated")),
        Case("torch-resuming", "digits_ddp:resuming", expect=SURVIVED),
        Case("torch-after-the-step", "preempted:after_the_step", expect=SURVIVED),
    ],
)
