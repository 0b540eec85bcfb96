"""A Keras model is made outside of the scope of the workers' strategy: each worker fits its own, and they diverge.

Inside of the scope, `fit` of Keras 3 fails as soon as it begins; a custom training loop works.

Seen in the wild: dmonterom/face_recognition_TF2#4 (a layer whose variables are made outside of the scope).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="sync",
    without={"torch": "see bypassed_wrapper"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "placement", "finite", "replicas", "samples", "control"),
    cases=[
        Case(
            "tf-fit-outside-the-scope",
            "fitted:outside_the_scope",
            framework="tensorflow",
            control="fitted:in_a_loop",
            expect=silent(oracle="placement", rank=1, step=1, cause="variable not mirrored"),
        ),
        Case(
            "tf-fit-of-workers",
            "fitted:of_workers",
            framework="tensorflow",
            control="fitted:in_a_loop",
            expect=DETECTED,
        ),
        Case(
            "tf-in-a-loop",
            "fitted:in_a_loop",
            framework="tensorflow",
            control="fitted:in_a_loop",
            expect=SURVIVED,
        ),
    ],
)
