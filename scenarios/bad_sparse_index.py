"""A sparse matrix has a column that is not there, and is multiplied unchecked.

Seen in the wild: pytorch/pytorch#190045 (a malformed CSR tensor whose product reads what is not mapped).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "its kernels check the indices of sparse tensors"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-trusting-indices",
            "unchecked:trusting_indices",
            control="unchecked:mending_indices",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-mending-indices", "unchecked:mending_indices", expect=SURVIVED),
        Case("torch-checking-indices", "unchecked:checking_indices", expect=DETECTED),
    ],
)
