"""Workers assign to the variables that they share, with nothing to reduce the values of all: from then on they diverge.

The variables say nothing of how to aggregate, or each worker begins with biases of its own.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="sync",
    without={"torch": "see unsynced_gradients"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-unreduced",
            "mirrored_workers:unreduced",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=silent(oracle="replicas", rank=1, step=1, cause="unreduced assignment"),
        ),
        Case(
            "tf-reducing",
            "mirrored_workers:reducing",
            framework="tensorflow",
            control="mirrored_workers:reducing",
            expect=SURVIVED,
        ),
        Case(
            "tf-starting-apart",
            "mirrored_workers:starting_apart",
            framework="tensorflow",
            control="mirrored_workers:starting_alike",
            expect=silent(oracle="replicas", rank=1, step=1, cause="unreduced assignment"),
        ),
        Case(
            "tf-starting-alike",
            "mirrored_workers:starting_alike",
            framework="tensorflow",
            control="mirrored_workers:starting_alike",
            expect=SURVIVED,
        ),
    ],
)
