"""A rank is killed while all of them save their shards: the others have written theirs, and it has not written its own.

A checkpoint that is saved over the last one is then half of one step and half of another, and loads without an error.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent

WHILE_SAVING = [faults.Kill() @ at(rank=1, step=4, point="write", visit=2)]

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "saves from one place: its workers write shards only with a dataset or a parameter server"},
    job=Job(ranks=2, steps=6, data="digits", restarts=1),
    strikes=WHILE_SAVING,
    cases=[
        Case("torch-in-place", "sharded:in_place", expect=silent(oracle="checkpoint", cause="torn checkpoint")),
        Case("torch-in-turn", "sharded:in_turn", expect=SURVIVED),
    ],
)
