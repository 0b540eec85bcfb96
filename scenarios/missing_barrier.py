"""A rank reads a file that rank 0 has not written yet, with no barrier between writing and reading.

Seen in the wild: huggingface/transformers#27925 (a folder that several ranks rename, with no barrier between).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, controlled, silent

SCENARIO = Scenario(
    family="sync",
    without={"tensorflow": "it has no barrier but its collectives"},
    job=Job(ranks=2, steps=6, data="digits"),
    schedule=controlled("random"),
    cases=[
        Case(
            "torch-read-at-once",
            "shared_scale:read_at_once",
            control="shared_scale:read_after_barrier",
            expect=silent(oracle="control", cause="wrong result"),
        ),
        Case(
            "torch-read-after-barrier",
            "shared_scale:read_after_barrier",
            control="shared_scale:read_after_barrier",
            expect=SURVIVED,
        ),
    ],
)
