"""The reader of one rank stands still for a while, and its peers wait for its batch: that is late, and no hang."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults

READS = at(rank=1, step=3, point="load")
ASLEEP = [faults.Straggle(seconds=1.0, asleep=True) @ READS]
# In TensorFlow no reader computes: its collectives give up after five seconds, and a busy machine takes as long.
COMPUTING = [faults.Straggle(seconds=1.0) @ READS]

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=2, steps=6, data="digits"),
    strikes=ASLEEP,
    cases=[
        Case("torch-shuffled", "drawing:told_of_each_epoch", expect=SURVIVED),
        Case("torch-shuffled-computing", "drawing:told_of_each_epoch", strikes=COMPUTING, expect=SURVIVED),
        Case("torch-by-workers", "drawing:seed_of_each_worker", expect=SURVIVED),
        Case("torch-stream", "streamed:shared_out", expect=SURVIVED),
        Case("tf-shuffled", "epochs_workers:shuffled_each_time", framework="tensorflow", expect=SURVIVED),
        Case("tf-generated", "epochs_workers:shared_out", framework="tensorflow", expect=SURVIVED),
    ],
)
