"""Samples come in the order of their labels: each batch holds one or two classes, and the next one unlearns them."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "finite", "replicas"),
    cases=[
        Case(
            "tf-by-label",
            "mirrored_workers:by_label",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=silent(oracle="progress", step=5, cause="loss not decreasing"),
        ),
        Case(
            "tf-mixed",
            "mirrored_workers:reducing",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=SURVIVED,
        ),
    ],
)
