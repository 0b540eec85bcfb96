"""One call on a file is slower than all else: a save is done after those that were begun after it.

The call is let go when nothing else in the job moves any more; no clock decides that.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.SlowDisk() @ at(rank=0, step=3, point="collective")],
    cases=[
        Case(
            "torch-overtaking",
            "stalled:overtaking",
            control="stalled:in_line",
            expect=silent(oracle="progress", rank=0, step=6, cause="loss not decreasing"),
        ),
        Case("torch-in-line", "stalled:in_line", expect=SURVIVED),
        Case("torch-in-the-loop", "stalled:in_the_loop", expect=SURVIVED),
        Case("tf-in-background", "stalled_workers:in_background", framework="tensorflow", expect=SURVIVED),
    ],
)
