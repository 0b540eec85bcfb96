"""One batch of larger street scenes does not fit into the memory that one rank has left.

The usual cure, to take the batch in pieces, is none for DeepLab: batch normalisation takes its means over what it is
given at a time. To compute activations again in the backward pass takes as little memory, and changes no result.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, hung, silent

#: DeepLab is that of transformers, and Pillow draws the scenes.
NEEDS = ("transformers", "PIL")

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "see oversized_batch"},
    job=Job(ranks=2, steps=4, data="streets_128"),
    strikes=[faults.LimitMemory(headroom_mb=225) @ at(rank=1, step=3, point="load")],
    cases=[
        Case("torch-whole", "street_memory:whole", needs=NEEDS, expect=DETECTED),
        Case(
            "torch-skipping",
            "street_memory:skipping",
            needs=NEEDS,
            expect=hung(oracle="progress", step=3, cause="participant missing"),
        ),
        Case(
            "torch-in-halves",
            "street_memory:in_halves",
            needs=NEEDS,
            control="street_memory:whole",
            expect=silent(oracle="control", step=1, cause="wrong result"),
        ),
        Case("torch-recomputing", "street_memory:recomputing", needs=NEEDS, expect=SURVIVED),
    ],
)
