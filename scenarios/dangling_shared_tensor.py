"""A tensor outlives the segment of shared memory that it lies in: nobody kept the segment's owner.

Seen in the wild: numpy/numpy#18294 and python/cpython#102349 (an array that a function returns, and its segment not).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its tensors are not shared between processes"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-forgetting-the-owner",
            "freed:forgetting_the_owner",
            control="freed:keeping_the_owner",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-keeping-the-owner", "freed:keeping_the_owner", expect=SURVIVED),
    ],
)
