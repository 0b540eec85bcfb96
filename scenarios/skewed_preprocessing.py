"""One worker scales its images otherwise: its gradients are of another problem, and all workers take the mean."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-skewed",
            "mirrored_workers:skewed",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=silent(oracle="samples", rank=1, step=1, cause="samples changed"),
        ),
        Case(
            "tf-scaled-alike",
            "mirrored_workers:reducing",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=SURVIVED,
        ),
    ],
)
