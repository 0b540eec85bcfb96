"""One failure brings another: a rank is killed, and its peer, which saves what it can, is killed between two files."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "struck from outside of any framework: tried with torch"},
    job=Job(ranks=2, steps=6, restarts=1, data="digits"),
    strikes=[
        faults.Kill() @ at(rank=1, step=4, point="collective"),
        faults.Kill() @ at(rank=0, step=4, point="save", visit=2),
    ],
    cases=[
        Case("torch-part-by-part", "emergency:part_by_part", expect=silent(oracle="control", cause="wrong result")),
        Case("torch-as-one", "emergency:as_one", expect=SURVIVED),
    ],
)
