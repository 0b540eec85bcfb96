"""A rank comes late to the gradients' reduction, computing or asleep, and comes: that is never a hang.

Seen in the wild: InternLM/xtuner#PR1790 and horovod/horovod#824 (ranks that wait for their data, and all others for
them: `torch-late-data`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

COMPUTES = [faults.Straggle(seconds=1.0) @ at(rank=1, step=3, point="collective")]
LOADS = [faults.Straggle(seconds=1.0, asleep=True) @ at(rank=1, step=3, point="load")]
SLEEPS = [faults.Straggle(seconds=1.0, asleep=True) @ at(rank=1, step=3, point="collective")]

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "late is late: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=COMPUTES,
    cases=[
        Case("torch-ddp-computing", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-ddp-sleeping", "digits_ddp:plain", strikes=SLEEPS, expect=SURVIVED),
        Case("torch-late-data", "averaging:plain", strikes=LOADS, expect=SURVIVED),
        Case("torch-by-hand-sleeping", "averaging:plain", strikes=SLEEPS, expect=SURVIVED),
    ],
)
