"""The wall clock of one rank jumps by two hours, as if it were set right: a program that measures by it is misled."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, hung, silent

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.JumpClock(seconds=7200) @ at(rank=1, step=3, point="load")],
    cases=[
        Case(
            "torch-annealed-by-wall",
            "clocks:annealed_by_wall",
            expect=silent(oracle="replicas", rank=1, step=4, cause="settings differ"),
        ),
        Case("torch-annealed-by-monotonic", "clocks:annealed_by_monotonic", expect=SURVIVED),
        Case("torch-ends-by-wall", "clocks:ends_by_wall", expect=hung(oracle="progress")),
        Case("torch-ends-by-monotonic", "clocks:ends_by_monotonic", expect=SURVIVED),
    ],
)
