"""A stream of samples is not shared out: each rank, or each worker of its loader, reads all of it.

Seen in the wild: huggingface/datasets#5360 (a stream that each rank reads as a whole) and huggingface/datasets#3423
(one that each worker of a loader does).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

ON_EACH_RANK = silent(oracle="samples", rank=1, step=1, cause="duplicate shard")
IN_EACH_WORKER = silent(oracle="samples", step=2, cause="once per worker")

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=12, data="digits"),
    oracles=("ends", "progress", "finite", "replicas", "samples"),
    cases=[
        Case(
            "torch-all-to-each-rank",
            "streamed:all_to_each_rank",
            control="streamed:shared_out",
            expect=ON_EACH_RANK,
        ),
        Case(
            "torch-all-to-each-worker",
            "streamed:all_to_each_worker",
            control="streamed:shared_out",
            expect=IN_EACH_WORKER,
        ),
        Case(
            "torch-all-to-everyone",
            "streamed:all_to_everyone",
            control="streamed:shared_out",
            expect=IN_EACH_WORKER,
        ),
        Case("torch-shared-out", "streamed:shared_out", control="streamed:shared_out", expect=SURVIVED),
        Case(
            "tf-all-to-each-worker",
            "epochs_workers:all_to_each_worker",
            framework="tensorflow",
            control="epochs_workers:shared_out",
            expect=ON_EACH_RANK,
        ),
        Case(
            "tf-shared-out",
            "epochs_workers:shared_out",
            framework="tensorflow",
            control="epochs_workers:shared_out",
            expect=SURVIVED,
        ),
        Case(
            "tf-read-by-each-reader",
            "epochs_workers:read_by_each_reader",
            framework="tensorflow",
            control="epochs_workers:read_in_parts",
            expect=silent(oracle="samples", step=5, cause="samples lost"),
        ),
        Case(
            "tf-read-in-parts",
            "epochs_workers:read_in_parts",
            framework="tensorflow",
            control="epochs_workers:read_in_parts",
            expect=SURVIVED,
        ),
    ],
)
