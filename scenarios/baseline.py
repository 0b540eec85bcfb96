"""Nothing goes wrong: training that is sound must pass every oracle that can judge it without a control."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario

SCENARIO = Scenario(
    job=Job(ranks=2, steps=8, data="digits"),
    cases=[
        Case("torch-ddp", "digits_ddp:plain", expect=SURVIVED),
        Case("torch-hogwild-locked", "hogwild:locked", expect=SURVIVED),
        Case("tf-workers", "digits_workers:plain", framework="tensorflow", expect=SURVIVED),
        Case("tf-fit", "fitted:alone", framework="tensorflow", ranks=1, expect=SURVIVED),
        Case("tf-fit-mirrored", "fitted:mirrored", framework="tensorflow", ranks=1, expect=SURVIVED),
    ],
)
