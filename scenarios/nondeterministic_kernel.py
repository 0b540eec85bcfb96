"""A kernel adds up in the order in which its threads come: the ranks compute the same, and get other bits.

On a CPU these are torch's `index_put_` and `put_` that accumulate, and so the backward pass of `table[rows]`.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    without={"tensorflow": "its scatter and gather kernels were not seen to differ on a CPU"},
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-as-they-come",
            "scattered:as_they_come",
            control="scattered:deterministic",
            expect=silent(oracle="replicas", step=1, cause="gradients differ"),
        ),
        Case("torch-deterministic", "scattered:deterministic", expect=SURVIVED),
    ],
)
