"""One rank's shard comes from another pipeline: it holds the same samples in another form, and says so.

A form that does not fit the network raises on that rank, and the others lose their connection to it. A form that fits,
such as columns in another order or classes with other numbers, trains on in silence.

Seen in the wild: NVIDIA/nccl#1394 (ranks whose tensors differ in shape, and no cheap check: `torch-trusting-width`).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, faults, silent

ANOTHER_BATCH = silent(oracle="control", rank=1, step=1, cause="batch mismatch")
CHANGED = silent(oracle="samples", rank=1, step=1, cause="samples changed")

#: Before the job reads anything.
BEGINNING = at(rank=1, step=0, point="start")
WIDTH = [faults.ReexportShard(change="width") @ BEGINNING]
DTYPE = [faults.ReexportShard(change="dtype") @ BEGINNING]
LABEL_SHAPE = [faults.ReexportShard(change="label_shape") @ BEGINNING]
LABEL_RANGE = [faults.ReexportShard(change="label_range") @ BEGINNING]
CLASS_ORDER = [faults.ReexportShard(change="class_order") @ BEGINNING]
COLUMNS = [faults.ReexportShard(change="columns") @ BEGINNING]

BATCHES = [faults.SwapColumns(), faults.ShiftLabels(), faults.CastBatch()]

SCENARIO = Scenario(
    family="data",
    job=Job(ranks=3, steps=8, data="digits"),
    # Of a script only the batches are known, as its loader hands them out.
    on_scripts=[fault @ at(rank=1, point="load") for fault in BATCHES],
    cases=[
        Case("torch-trusting-width", "shards:trusting", strikes=WIDTH, expect=DETECTED),
        Case("torch-agreeing-width", "shards:agreeing", strikes=WIDTH, expect=DETECTED),
        Case("torch-trusting-dtype", "shards:trusting", strikes=DTYPE, expect=DETECTED),
        Case("torch-agreeing-dtype", "shards:agreeing", strikes=DTYPE, expect=DETECTED),
        Case("torch-trusting-label-shape", "shards:trusting", strikes=LABEL_SHAPE, expect=DETECTED),
        Case("torch-agreeing-label-shape", "shards:agreeing", strikes=LABEL_SHAPE, expect=DETECTED),
        Case("torch-trusting-label-range", "shards:trusting", strikes=LABEL_RANGE, expect=DETECTED),
        Case("torch-agreeing-label-range", "shards:agreeing", strikes=LABEL_RANGE, expect=DETECTED),
        Case("torch-trusting-class-order", "shards:trusting", strikes=CLASS_ORDER, expect=ANOTHER_BATCH),
        Case("torch-agreeing-class-order", "shards:agreeing", strikes=CLASS_ORDER, expect=DETECTED),
        Case("torch-trusting-columns", "shards:trusting", strikes=COLUMNS, expect=ANOTHER_BATCH),
        Case("torch-agreeing-columns", "shards:agreeing", strikes=COLUMNS, expect=DETECTED),
        Case(
            "tf-trusting-dtype",
            "shards_workers:trusting",
            framework="tensorflow",
            strikes=DTYPE,
            expect=DETECTED,
        ),
        Case(
            "tf-agreeing-dtype",
            "shards_workers:agreeing",
            framework="tensorflow",
            strikes=DTYPE,
            expect=DETECTED,
        ),
        Case(
            "tf-trusting-class-order",
            "shards_workers:trusting",
            framework="tensorflow",
            strikes=CLASS_ORDER,
            expect=CHANGED,
        ),
        Case(
            "tf-agreeing-class-order",
            "shards_workers:agreeing",
            framework="tensorflow",
            strikes=CLASS_ORDER,
            expect=DETECTED,
        ),
    ],
)
