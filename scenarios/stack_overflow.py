"""A deep model is evaluated by recursion, on a stack that is too small for it.

Seen in the wild: pytorch/pytorch#5534 (a deep graph that was freed by recursion).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "the recursion is one of the C++ of torch"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-descending",
            "unchecked:descending",
            control="unchecked:looping",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-looping", "unchecked:looping", expect=SURVIVED),
    ],
)
