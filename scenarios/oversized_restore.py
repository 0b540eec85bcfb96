"""A rank resumes with less memory than the checkpoint of all ranks takes: the kernel kills it as it reads the whole.

Seen in the wild: facebookresearch/vissl#470 (all ranks of a node load the whole checkpoint at once) and
huggingface/accelerate#1210 (the kernel kills a rank that loads the state of its optimizer).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, crashed, faults

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=5, restarts=1, data="digits"),
    strikes=[
        faults.Kill() @ at(rank=1, step=3, point="collective"),
        faults.LimitGroupMemory(headroom_mb=64) @ at(rank=1, attempt=1, point="restore"),
    ],
    cases=[
        Case(
            "torch-read-whole",
            "moments:read_whole",
            expect=crashed(oracle="crash", rank=1, cause="out of memory"),
        ),
        Case("torch-mapped", "moments:mapped", expect=SURVIVED),
    ],
)
