"""Gradients are added up piece by piece, and the piece that should reduce them does not: every rank trains alone.

Seen in the wild: modelscope/FunASR#PR3472 (the first piece is reduced, and the last is not) and
karpathy/build-nanogpt#PR30 (reduction is switched on again after the forward pass has prepared for none).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

LEFT_OUT = [faults.LeaveUnsynced() @ at(rank="all", step=3, point="forward")]

SCENARIO = Scenario(
    family="sync",
    without={"tensorflow": "the strategy's optimizer reduces with each update"},
    job=Job(ranks=2, steps=8, data="digits"),
    oracles=(*DEFAULT_ORACLES, "reference"),
    on_scripts=[
        faults.LeaveUnsynced() @ at(rank="all", step=2, point="forward"),
        faults.LeaveUnsynced() @ at(rank="last", step=2, point="forward"),
    ],
    cases=[
        Case(
            "torch-reducing-none",
            "wrapped:reducing_none",
            control="wrapped:reducing_the_last",
            expect=silent(oracle="replicas", step=1, cause="gradients not reduced"),
        ),
        Case(
            "torch-reducing-the-last",
            "wrapped:reducing_the_last",
            control="wrapped:reducing_the_last",
            expect=SURVIVED,
        ),
        Case(
            "torch-left-out",
            "wrapped:wrapped",
            strikes=LEFT_OUT,
            expect=silent(oracle="replicas", step=3, cause="gradients not reduced"),
        ),
        Case("torch-left-out-comparing", "wrapped:comparing", strikes=LEFT_OUT, expect=DETECTED),
    ],
)
