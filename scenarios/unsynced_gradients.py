"""Gradients are added up piece by piece, and the piece that should reduce them does not: every rank trains alone.

Seen in the wild: modelscope/FunASR#PR3472 (the first piece is reduced, and the last is not) and
karpathy/build-nanogpt#PR30 (reduction is switched on again after the forward pass has prepared for none).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.scenario import DEFAULT_ORACLES

SCENARIO = Scenario(
    family="sync",
    job=Job(ranks=2, steps=8, data="digits"),
    oracles=(*DEFAULT_ORACLES, "reference"),
    cases=[
        Case(
            "torch-reducing-none",
            "wrapped:reducing_none",
            control="wrapped:reducing_the_last",
            expect=silent(oracle="replicas", step=1, cause="gradients not synchronised"),
        ),
        Case(
            "torch-reducing-the-last",
            "wrapped:reducing_the_last",
            control="wrapped:reducing_the_last",
            expect=SURVIVED,
        ),
    ],
)
