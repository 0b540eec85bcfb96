"""A tensor that was reduced to another rank is used again: the reduction has left partial sums in it.

Seen in the wild: pytorch/pytorch#21480 (gloo adds up in the tensors of the ranks that get no result).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="collectives",
    without={"tensorflow": "its tensors are never written to"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples"),
    cases=[
        Case(
            "torch-in-place",
            "averaging:logged_in_place",
            control="averaging:logged_from_a_copy",
            expect=silent(oracle="replicas", step=1, cause="gradients differ"),
        ),
        Case(
            "torch-from-a-copy",
            "averaging:logged_from_a_copy",
            control="averaging:logged_from_a_copy",
            expect=SURVIVED,
        ),
    ],
)
