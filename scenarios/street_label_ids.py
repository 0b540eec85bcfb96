"""The masks of one rank's city have ids, and not the train ids that the others have.

Some of the ids are no class: the loss refuses them. If labels that are no class are ignored, the others are learned for
classes that they are not.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=4, data="streets_128"),
    cases=[
        Case("torch-trusting", "street:trusting_ids", needs=NEEDS, expect=DETECTED),
        Case(
            "torch-clamping",
            "street:clamping_ids",
            needs=NEEDS,
            control="street:plain",
            expect=silent(oracle="control", rank=1, step=1, cause="batch mismatch"),
        ),
        Case("torch-train-ids", "street:plain", needs=NEEDS, expect=SURVIVED),
        Case("tf-trusting", "street_keras:trusting_ids", framework="tensorflow", needs=("PIL",), expect=DETECTED),
        Case(
            "tf-one-hot",
            "street_keras:ids_one_hot",
            framework="tensorflow",
            needs=("PIL",),
            control="street_keras:train_ids_one_hot",
            expect=silent(oracle="samples", rank=1, step=1, cause="samples changed"),
        ),
        Case(
            "tf-train-ids-one-hot",
            "street_keras:train_ids_one_hot",
            framework="tensorflow",
            needs=("PIL",),
            expect=SURVIVED,
        ),
    ],
)
