"""One number of one replica's batch is NaN: so are the mean of the gradients and all weights of all replicas."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="numeric",
    without={"torch": "the mistake is the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-spoilt",
            "mirrored_workers:spoilt",
            framework="tensorflow",
            control="mirrored_workers:scrubbed",
            expect=silent(oracle="finite", rank=1, step=3, cause="non-finite value"),
        ),
        Case(
            "tf-scrubbed",
            "mirrored_workers:scrubbed",
            framework="tensorflow",
            control="mirrored_workers:scrubbed",
            expect=SURVIVED,
        ),
        Case(
            "tf-spoilt-replica",
            "mirrored:spoilt",
            framework="tensorflow",
            control="mirrored:scrubbed",
            ranks=1,
            expect=silent(oracle="finite", rank=0, step=3, cause="non-finite value"),
        ),
        Case(
            "tf-scrubbed-replica",
            "mirrored:scrubbed",
            framework="tensorflow",
            control="mirrored:scrubbed",
            ranks=1,
            expect=SURVIVED,
        ),
    ],
)
