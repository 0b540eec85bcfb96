"""Images are left as they come, of values that are large for the learning rate: no overflow, but nothing is learned."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "finite", "replicas"),
    cases=[
        Case(
            "tf-unscaled",
            "mirrored_workers:unscaled",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=silent(oracle="progress", step=5, cause="loss not decreasing"),
        ),
        Case(
            "tf-scaled",
            "mirrored_workers:reducing",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=SURVIVED,
        ),
    ],
)
