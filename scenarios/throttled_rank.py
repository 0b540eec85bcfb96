"""A rank gets a small part of one core from a step on, as if a container's quota were too small: it never hangs."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.Throttle(percent=5) @ at(rank=1, step=3, point="forward")],
    cases=[
        Case("torch-ddp", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-by-hand", "averaging:plain", expect=SURVIVED),
    ],
)
