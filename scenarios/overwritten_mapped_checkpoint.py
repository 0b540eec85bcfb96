"""A checkpoint is saved over the one that another rank has mapped: a smaller one kills it, one of its size is believed.

Seen in the wild: meta-pytorch/torchtune#1075 (no mapping where the same file is overwritten during training).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "it maps no checkpoint, and reads it"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-overwriting-with-less",
            "mapped:overwriting_with_less",
            control="mapped:replacing_with_less",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-replacing-with-less", "mapped:replacing_with_less", expect=SURVIVED),
        Case(
            "torch-overwriting-with-as-much",
            "mapped:overwriting_with_as_much",
            control="mapped:replacing_with_as_much",
            expect=silent(oracle="control", rank=1, step=3, cause="loss scaled otherwise"),
        ),
        Case("torch-replacing-with-as-much", "mapped:replacing_with_as_much", expect=SURVIVED),
    ],
)
