"""The process group's time-out does not fit the job: a rank that is merely late ends it, or nobody ever does.

The late rank comes three seconds late and is healthy, the stopped one never comes. A time-out of two seconds is wrong
for the one and right for the other; torch's own 30 minutes are right for the one and cost half an hour with the other.

Seen in the wild: hiyouga/LlamaFactory#2424 and PaddlePaddle/PaddleOCR#13435 (rank 0 prepares, or evaluates, for longer
than the time-out of the others: `torch-late-short`), marin-community/marin#PR7039 (a loader that stalls:
`torch-late-loader`) and huggingface/accelerate#1401 (a time-out that is given and not applied:
`torch-stopped-short-elsewhere`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung

LATE = [faults.Straggle(seconds=3.0, asleep=True) @ at(rank=1, step=3, point="collective")]
LATE_LOADER = [faults.Straggle(seconds=3.0, asleep=True) @ at(rank=1, step=3, point="load")]
STOPPED = [faults.Stop() @ at(rank=1, step=3, point="collective")]

SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "its time-outs are those of the cases of killed_rank"},
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=LATE,
    cases=[
        Case("torch-late-short", "averaging:limited", strikes=LATE, expect=DETECTED),
        Case("torch-late-default", "averaging:plain", strikes=LATE, expect=SURVIVED),
        Case("torch-late-loader", "averaging:limited", strikes=LATE_LOADER, expect=DETECTED),
        Case("torch-stopped-short", "averaging:limited", strikes=STOPPED, expect=DETECTED),
        Case("torch-stopped-short-throughout", "averaging:limited_throughout", strikes=STOPPED, expect=DETECTED),
        Case(
            "torch-stopped-short-elsewhere",
            "averaging:limited_elsewhere",
            strikes=STOPPED,
            expect=hung(oracle="progress", rank=0, step=3, cause="peer stopped"),
        ),
        Case(
            "torch-stopped-default",
            "averaging:plain",
            strikes=STOPPED,
            expect=hung(oracle="progress", rank=0, step=3, cause="peer stopped"),
        ),
    ],
)
