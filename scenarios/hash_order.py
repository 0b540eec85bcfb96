"""Python's hash of a text is another one on one rank: sets have another order there, and shares other samples."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

#: The environment of the ranks, with that of rank 1 alone.
OTHER_HASH = {"PYTHONHASHSEED": "0", "PYTHONHASHSEED@1": "1"}

SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=("collectives", *DEFAULT_ORACLES),
    cases=[
        Case(
            "torch-sharing-by-hash",
            "surroundings:sharing_by_hash",
            control="surroundings:sharing_by_checksum",
            expect=silent(oracle="samples", cause="samples lost"),
            environment=OTHER_HASH,
        ),
        Case(
            "torch-sharing-by-checksum",
            "surroundings:sharing_by_checksum",
            control="surroundings:sharing_by_checksum",
            expect=SURVIVED,
            environment=OTHER_HASH,
        ),
        Case(
            "torch-averaging-a-set",
            "surroundings:averaging_a_set",
            control="surroundings:averaging_in_order",
            expect=silent(oracle="collectives", step=1, cause="order mismatch"),
            environment=OTHER_HASH,
        ),
        Case(
            "torch-averaging-in-order",
            "surroundings:averaging_in_order",
            control="surroundings:averaging_in_order",
            expect=SURVIVED,
            environment=OTHER_HASH,
        ),
        Case(
            "tf-sharing-by-hash",
            "surroundings_workers:sharing_by_hash",
            framework="tensorflow",
            control="surroundings_workers:sharing_by_number",
            expect=silent(oracle="samples", cause="samples lost"),
            environment=OTHER_HASH,
        ),
        Case(
            "tf-sharing-by-number",
            "surroundings_workers:sharing_by_number",
            framework="tensorflow",
            control="surroundings_workers:sharing_by_number",
            expect=SURVIVED,
            environment=OTHER_HASH,
        ),
        Case(
            "tf-averaging-a-set",
            "surroundings_workers:averaging_a_set",
            framework="tensorflow",
            control="surroundings_workers:averaging_in_order",
            expect=silent(oracle="replicas", step=1, cause="replicas differ"),
            environment=OTHER_HASH,
        ),
        Case(
            "tf-averaging-in-order",
            "surroundings_workers:averaging_in_order",
            framework="tensorflow",
            control="surroundings_workers:averaging_in_order",
            expect=SURVIVED,
            environment=OTHER_HASH,
        ),
    ],
)
