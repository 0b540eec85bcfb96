"""One rank's core fails without a word: from a step on each product of matrices has one element that is wrong."""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, silent

FORWARD = at(rank=1, step=3, point="forward")
#: The fields of the bit that is wrong. In a mantissa, the twentieth bit is an eighth of the number or less.
BITS = {"exponent": faults.MultiplyWrongly(), "mantissa": faults.MultiplyWrongly(field="mantissa", bit=20)}

WRONG = silent(oracle="control", rank=1, step=3, cause="wrong contribution")

SCENARIO = Scenario(
    family="numeric",
    without={"tensorflow": "its products are computed within graphs, at whose operators no hook can stand"},
    oracles=("ends", "progress", "finite", "replicas", "buffers", "samples", "collectives", "control", "checkpoint"),
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        Case(
            f"torch-{field}-{guard}",
            f"shielded:{guard}",
            strikes=[fault @ FORWARD],
            expect=DETECTED if guard == "checksummed" else WRONG,
        )
        for field, fault in BITS.items()
        for guard in ("unguarded", "checksummed")
    ],
)
