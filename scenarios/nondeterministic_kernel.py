"""A kernel adds up in the order in which its threads come: two equal backward passes give other bits.

On a CPU these are torch's `index_put_` and `put_` that accumulate, and so the backward passes of `table[rows]` and
`take` (tried 30 times each with 8 threads: 30 of 30 differ). In TensorFlow it is `bincount` with weights, which
`enable_op_determinism` leaves as it is (15 of 20 differ), and without that switch `scatter_add`, with which Keras's SGD
updates an embedding (19 of 20). The programs look for it as they learn. A program that does not look ends with replicas
that part at its first step, and with other ones in each run: no record can hold that.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-as-they-come",
            "scattered:as_they_come",
            control="scattered:deterministic",
            expect=DETECTED,
        ),
        Case("torch-deterministic", "scattered:deterministic", expect=SURVIVED),
        Case(
            "tf-as-they-come",
            "scattered_workers:as_they_come",
            framework="tensorflow",
            control="scattered_workers:deterministic",
            expect=DETECTED,
        ),
        Case("tf-deterministic", "scattered_workers:deterministic", framework="tensorflow", expect=SURVIVED),
    ],
)
