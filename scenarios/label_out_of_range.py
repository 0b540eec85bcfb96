"""A label of one batch is no class, and the loss takes it for an index.

Seen in the wild: pytorch/pytorch#174988 and pytorch/pytorch#197799 (the CTC loss reads outside of its input).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "its kernels check labels: NaN on a GPU, an error on a CPU"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-trusting-labels",
            "unchecked:trusting_labels",
            control="unchecked:dropping_labels",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-dropping-labels", "unchecked:dropping_labels", expect=SURVIVED),
        Case("torch-checking-labels", "unchecked:checking_labels", expect=DETECTED),
    ],
)
