"""One worker's host has another release of the training code: an image that was rolled out to all hosts but one.

Another release of the framework itself cannot be had in one environment. Another release of the training code has the
same effect: the ranks agree on every collective, and not on its purpose.

Seen in the wild: open-mmlab/mmdetection#1089 (nodes with different builds of PyTorch, and an error about something
else).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="environment",
    without={"torch": "tried with TensorFlow: a mistake of the job, not of a framework"},
    job=Job(ranks=2, steps=5, data="digits"),
    cases=[
        Case(
            "tf-unnoticed",
            "workers:other_release",
            framework="tensorflow",
            control="workers:plain",
            expect=silent(oracle="replicas", step=1, cause="replicas differ"),
        ),
        Case(
            "tf-compared",
            "workers:same_release",
            framework="tensorflow",
            control="workers:plain",
            expect=DETECTED,
        ),
    ],
)
