"""The host of one rank is in another time zone: it is another day there."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

#: The environment of the ranks, with that of rank 1 alone.
FAR_EAST = {"TZ": "UTC0", "TZ@1": "FAR-14"}

SCENARIO = Scenario(
    family="environment",
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            "torch-local-day",
            "surroundings:shuffling_by_local_day",
            control="surroundings:shuffling_by_day",
            expect=silent(oracle="samples", cause="samples lost"),
            environment=FAR_EAST,
        ),
        Case(
            "torch-one-day",
            "surroundings:shuffling_by_day",
            control="surroundings:shuffling_by_day",
            expect=SURVIVED,
            environment=FAR_EAST,
        ),
        Case(
            "tf-local-day",
            "surroundings_workers:shuffling_by_local_day",
            framework="tensorflow",
            control="surroundings_workers:shuffling_by_day",
            expect=silent(oracle="samples", cause="samples lost"),
            environment=FAR_EAST,
        ),
        Case(
            "tf-one-day",
            "surroundings_workers:shuffling_by_day",
            framework="tensorflow",
            control="surroundings_workers:shuffling_by_day",
            expect=SURVIVED,
            environment=FAR_EAST,
        ),
    ],
)
