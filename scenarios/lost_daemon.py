"""The daemon of a node dies while the tasks there train, and comes back: the tasks do not need it."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="cluster",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=8, data="digits"),
    strikes=[faults.LoseDaemon() @ at(rank=1, step=3, point="optimize")],
    cases=[Case("torch-plain", "digits_ddp:plain", expect=SURVIVED)],
)
