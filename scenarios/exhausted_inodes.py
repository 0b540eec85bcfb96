"""The disk of the rank that saves has no inode left, though it has room: no new file can be made (ENOSPC).

A file that is there can be written over, which spoils it if the save then fails; one that is to be made beside it
cannot.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=[faults.ExhaustInodes(folder="checkpoints") @ at(rank=0, step=4, point="save")],
    cases=[
        Case(
            "torch-cleared",
            "saving:cleared",
            control="saving:aside",
            expect=silent(oracle="checkpoint", rank=0, step=4, cause="no checkpoint"),
        ),
        Case("torch-aside", "saving:aside", expect=SURVIVED),
        Case("torch-unforgiving", "saving:unforgiving", expect=DETECTED),
    ],
)
