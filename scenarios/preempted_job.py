"""A batch job gives its node to a more urgent job in the middle of training, and its cluster starts it again later."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="cluster",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=8, data="digits"),
    strikes=[faults.PreemptJob() @ at(rank=1, step=3, point="optimize")],
    cases=[
        Case("torch-forgetful", "digits_ddp:forgetful", expect=silent(oracle="samples", cause="samples duplicated")),
        Case("torch-resuming", "digits_ddp:resuming", expect=SURVIVED),
    ],
)
