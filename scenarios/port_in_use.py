"""The port at which the ranks are to meet is taken: a process of an earlier job, or a stranger, listens there.

Seen in the wild: pytorch/pytorch#129367 (the first rank knows it, and the others wait for a stranger to answer:
`torch-taken`, `torch-stranger`), meta-pytorch/torchtune#392 and facebookresearch/detectron2#91 (two jobs on one
machine: `torch-taken`).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults

STRANGER = [faults.TakePort() @ at(rank=0, step=0, point="start")]

SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=2, steps=5, deadline_s=5.0, data="digits"),
    cases=[
        Case("torch-taken", "rendezvous:taken_port", control="rendezvous:free_port", expect=DETECTED),
        Case("torch-free", "rendezvous:free_port", control="rendezvous:free_port", expect=SURVIVED),
        Case("torch-stranger", "averaging:plain", strikes=STRANGER, expect=DETECTED),
        Case(
            "tf-taken",
            "clusters:taken_port",
            framework="tensorflow",
            control="clusters:launched",
            expect=DETECTED,
        ),
        Case(
            "tf-free",
            "clusters:launched",
            framework="tensorflow",
            control="clusters:launched",
            expect=SURVIVED,
        ),
    ],
)
