"""Each worker saves the model to the same file at the end of training, with nothing between them.

Seen in the wild: tensorflow/tensorflow#38635 (workers that save to one path, and get into each other's way).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

SCENARIO = Scenario(
    family="storage",
    without={"torch": "see unsynchronized_writes"},
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=["ends", "progress", "files", "finite", "replicas", "samples", "control"],
    cases=[
        Case(
            "tf-saved-by-all",
            "fitted:saved_by_all",
            framework="tensorflow",
            control="fitted:saved_by_the_chief",
            expect=silent(oracle="files", step=5, cause="file race"),
        ),
        Case(
            "tf-saved-by-the-chief",
            "fitted:saved_by_the_chief",
            framework="tensorflow",
            control="fitted:saved_by_the_chief",
            expect=SURVIVED,
        ),
    ],
)
