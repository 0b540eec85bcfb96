"""A kernel adds up in the order in which its threads come: two equal backward passes give other bits.

On a CPU these are torch's `index_put_` and `put_` that accumulate, and so the backward passes of `table[rows]` and
`take` (tried 30 times each with 8 threads: 30 of 30 differ). The programs look for it before they learn. A program that
does not look ends with replicas that part at its first step, and with other ones in each run: no record can hold that.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario

SCENARIO = Scenario(
    family="numeric",
    without={"tensorflow": "on a CPU scatter_add and bincount differ from run to run, and no program has one"},
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-as-they-come",
            "scattered:as_they_come",
            control="scattered:deterministic",
            expect=DETECTED,
        ),
        Case("torch-deterministic", "scattered:deterministic", expect=SURVIVED),
    ],
)
