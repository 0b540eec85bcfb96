"""A picture file of one rank ends early: it is passed over, filled up, or replaced, and the other ranks know nothing.

A rank that passes over the batch has one less than the others, which wait for it.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung, silent

OTHER_BATCH = silent(oracle="control", rank=1, step=3, cause="batch mismatch")

# The files are there when the first batch is asked for; this one is of a later batch.
OF_TENSORFLOW = [faults.CutFile(path="pictures-1/004*.jpg", share=0.8) @ at(rank=1, step=1, point="load")]

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=8, data="digits", deadline_s=10.0),
    # The files are there when the first batch is asked for; this one is of the third.
    strikes=[faults.CutFile(path="pictures-1/007*.png", share=0.6) @ at(rank=1, step=1, point="load")],
    cases=[
        Case("torch-raising", "pictures:raising", expect=DETECTED),
        Case(
            "torch-passing-over",
            "pictures:passing_over",
            expect=hung(oracle="progress", rank=0, cause="participant missing"),
        ),
        Case("torch-leaving-out", "pictures:leaving_out", expect=OTHER_BATCH),
        Case("torch-recovering", "pictures:recovering", expect=OTHER_BATCH),
        Case("torch-taking-another", "pictures:taking_another", expect=OTHER_BATCH),
        Case("torch-from-a-copy", "pictures:from_a_copy", expect=SURVIVED),
        Case(
            "tf-raising",
            "pictures_workers:raising",
            framework="tensorflow",
            strikes=OF_TENSORFLOW,
            expect=DETECTED,
        ),
        Case(
            "tf-ignoring-errors",
            "pictures_workers:ignoring_errors",
            framework="tensorflow",
            strikes=OF_TENSORFLOW,
            expect=silent(oracle="samples", rank=1, cause="samples lost"),
        ),
        Case(
            "tf-recovering",
            "pictures_workers:recovering",
            framework="tensorflow",
            strikes=OF_TENSORFLOW,
            expect=silent(oracle="samples", rank=1, cause="samples changed"),
        ),
        Case(
            "tf-from-a-copy",
            "pictures_workers:from_a_copy",
            framework="tensorflow",
            strikes=OF_TENSORFLOW,
            expect=SURVIVED,
        ),
    ],
)
