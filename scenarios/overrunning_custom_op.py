"""A custom operator written in C writes outside of its tensor, told a wrong stride."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "the operator is torch's; one of TensorFlow takes its headers to build"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-striding-by-the-size",
            "unchecked:striding_by_the_size",
            control="unchecked:striding_by_the_stride",
            needs=("compiler",),
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-striding-by-the-stride", "unchecked:striding_by_the_stride", needs=("compiler",), expect=SURVIVED),
    ],
)
