"""Two ranks write the same checkpoint, metrics or folder, with nothing between them.

Seen in the wild: NVIDIA/apex#886 (two processes that save to one path, and a file that cannot be loaded later:
`torch-shared-checkpoint`), huggingface/datasets#1942 (a race for the file of a metric: `torch-shared-metrics`) and
huggingface/transformers#20988 (several processes that clear the same folder: `torch-shared-folder`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, controlled, silent

SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "its workers are not scheduled: see shared_model_file"},
    job=Job(ranks=2, steps=4, data="digits"),
    schedule=controlled("random"),
    oracles=["ends", "progress", "files", "finite", "replicas", "samples", "control", "checkpoint"],
    cases=[
        Case(
            "torch-shared-checkpoint",
            "writers:shared_checkpoint",
            control="writers:gathered_checkpoint",
            expect=silent(oracle="files", step=1, cause="file race"),
        ),
        Case(
            "torch-shared-metrics",
            "writers:shared_metrics",
            control="writers:gathered_metrics",
            expect=silent(oracle="files", step=1, cause="rename race"),
        ),
        Case(
            "torch-shared-folder",
            "writers:shared_folder",
            control="writers:prepared_folder",
            expect=silent(oracle="files", step=2, cause="file race"),
        ),
        Case(
            "torch-gathered-checkpoint",
            "writers:gathered_checkpoint",
            control="writers:gathered_checkpoint",
            expect=SURVIVED,
        ),
        Case("torch-gathered-metrics", "writers:gathered_metrics", control="writers:gathered_metrics", expect=SURVIVED),
        Case("torch-prepared-folder", "writers:prepared_folder", control="writers:prepared_folder", expect=SURVIVED),
    ],
)
