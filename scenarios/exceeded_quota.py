"""The quota of the user is used up: a checkpoint is begun, and its writes are refused (EDQUOT) from some point on.

The same error comes with each save from then on, and torch's own words for it say nothing of a quota.

Seen in the wild: open-mmlab/mmdetection#12069 (a quota that stops saves while the disk has space: `torch-cleared`,
`torch-unforgiving`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.ExceedQuota(path="checkpoints/last.tmp", when=2) @ at(rank=0, step=4, point="save")],
    cases=[
        Case(
            "torch-cleared",
            "saving:cleared",
            control="saving:aside",
            expect=silent(oracle="checkpoint", rank=0, step=4, cause="no checkpoint"),
        ),
        Case("torch-aside", "saving:aside", expect=SURVIVED),
        Case("torch-unforgiving", "saving:unforgiving", expect=DETECTED),
    ],
)
