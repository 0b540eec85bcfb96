"""Nothing is broken: sound training passes every oracle, and a script of one's own is checked in three runs."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario
from breakrank.plan.scenario import DEFAULT_ORACLES

SCENARIO = Scenario(
    job=Job(ranks=2, steps=8, data="digits"),
    oracles=(*DEFAULT_ORACLES, "collectives", "race", "files"),
    checkup=True,
    cases=[
        Case("torch-ddp", "digits_ddp:plain", expect=SURVIVED),
        Case("tf-workers", "digits_workers:plain", framework="tensorflow", expect=SURVIVED),
    ],
)
