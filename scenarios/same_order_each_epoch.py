"""Samples are shuffled once and for all: each epoch comes in the order of the first one.

A sampler for all ranks that is told of no epoch draws the same order again, and so does a shuffle that is seeded anew
in each epoch. In TensorFlow, `reshuffle_each_iteration=False`, a seeded shuffle that is made anew, and a cache behind
the shuffle do it.

Seen in the wild: pytorch/pytorch#31771 (a sampler without `set_epoch`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=24, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples"),
    cases=[
        Case(
            "torch-told-of-no-epoch",
            "drawing:told_of_no_epoch",
            control="drawing:told_of_each_epoch",
            expect=silent(oracle="samples", step=9, cause="one order"),
        ),
        Case(
            "torch-told-of-one-epoch",
            "drawing:told_of_one_epoch",
            control="drawing:told_of_each_epoch",
            expect=silent(oracle="samples", step=9, cause="one order"),
        ),
        Case(
            "torch-told-of-each-epoch",
            "drawing:told_of_each_epoch",
            control="drawing:told_of_each_epoch",
            expect=SURVIVED,
        ),
        Case(
            "torch-seeded-anew",
            "drawing:seeded_anew",
            control="drawing:seeded_by_epoch",
            expect=silent(oracle="samples", step=9, cause="shuffled once"),
        ),
        Case(
            "torch-seeded-by-epoch",
            "drawing:seeded_by_epoch",
            control="drawing:seeded_by_epoch",
            expect=SURVIVED,
        ),
        Case(
            "tf-shuffled-once",
            "epochs_workers:shuffled_once",
            framework="tensorflow",
            control="epochs_workers:shuffled_each_time",
            expect=silent(oracle="samples", step=9, cause="shuffled once"),
        ),
        Case(
            "tf-shuffled-each-time",
            "epochs_workers:shuffled_each_time",
            framework="tensorflow",
            control="epochs_workers:shuffled_each_time",
            expect=SURVIVED,
        ),
        Case(
            "tf-kept-behind-the-shuffle",
            "epochs_workers:kept_behind_the_shuffle",
            framework="tensorflow",
            control="epochs_workers:kept_before_the_shuffle",
            expect=silent(oracle="samples", step=9, cause="shuffled once"),
        ),
        Case(
            "tf-kept-before-the-shuffle",
            "epochs_workers:kept_before_the_shuffle",
            framework="tensorflow",
            control="epochs_workers:kept_before_the_shuffle",
            expect=SURVIVED,
        ),
        Case(
            "tf-made-anew-with-a-seed",
            "epochs_workers:made_anew_with_a_seed",
            framework="tensorflow",
            control="epochs_workers:made_anew_with_the_epoch",
            expect=silent(oracle="samples", step=9, cause="shuffled once"),
        ),
        Case(
            "tf-made-anew-with-the-epoch",
            "epochs_workers:made_anew_with_the_epoch",
            framework="tensorflow",
            control="epochs_workers:made_anew_with_the_epoch",
            expect=SURVIVED,
        ),
    ],
)
