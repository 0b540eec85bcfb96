"""A tensor moves into shared memory, and NumPy's view of it stays where the tensor was."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, crashed

SCENARIO = Scenario(
    family="memory",
    without={"tensorflow": "its tensors cannot be changed in place, and own their memory"},
    job=Job(ranks=2, steps=4, data="digits"),
    cases=[
        Case(
            "torch-keeping-a-view",
            "freed:keeping_a_view",
            control="freed:viewing_anew",
            expect=crashed(oracle="crash", rank=1, step=3, cause="killed by a signal"),
        ),
        Case("torch-viewing-anew", "freed:viewing_anew", expect=SURVIVED),
    ],
)
