"""One rank's shard comes from another pipeline: it holds the same samples in another form, and says so.

What does not fit the network raises on that rank, and the others lose their connection to it. What fits trains on in
silence: columns in another order, and classes with other numbers.

Seen in the wild: NVIDIA/nccl#1394 (ranks whose tensors differ in shape, and no cheap check) and
horovod/horovod#498 (ranks whose data differs in length); a check that all ranks make together is the cure of both.
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, silent

SILENT = silent(oracle="control", step=1, cause="wrong result")


def another(change: str) -> list:
    """Return the strike: before the job reads anything, rank 1's shard is exported anew."""
    return [faults.ReexportShard(change=change) @ at(rank=1, step=0, point="start")]


SCENARIO = Scenario(
    family="data",
    job=Job(ranks=3, steps=8, data="digits"),
    cases=[
        Case("torch-trusting-width", "shards:trusting", strikes=another("width"), expect=DETECTED),
        Case("torch-agreeing-width", "shards:agreeing", strikes=another("width"), expect=DETECTED),
        Case("torch-trusting-dtype", "shards:trusting", strikes=another("dtype"), expect=DETECTED),
        Case("torch-agreeing-dtype", "shards:agreeing", strikes=another("dtype"), expect=DETECTED),
        Case("torch-trusting-label-shape", "shards:trusting", strikes=another("label_shape"), expect=DETECTED),
        Case("torch-agreeing-label-shape", "shards:agreeing", strikes=another("label_shape"), expect=DETECTED),
        Case("torch-trusting-label-range", "shards:trusting", strikes=another("label_range"), expect=DETECTED),
        Case("torch-agreeing-label-range", "shards:agreeing", strikes=another("label_range"), expect=DETECTED),
        Case("torch-trusting-class-order", "shards:trusting", strikes=another("class_order"), expect=SILENT),
        Case("torch-agreeing-class-order", "shards:agreeing", strikes=another("class_order"), expect=DETECTED),
        Case("torch-trusting-columns", "shards:trusting", strikes=another("columns"), expect=SILENT),
        Case("torch-agreeing-columns", "shards:agreeing", strikes=another("columns"), expect=DETECTED),
    ],
)
