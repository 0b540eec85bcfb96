"""One rank calls a collective with another shape, dtype, count, reduction or root than its peers.

Seen in the wild: NVIDIA/nccl#1394 (tensors of another size on one rank: a hang, an abort, or a wrong sum:
`torch-shape`, `torch-count`), pytorch/pytorch#97191 (twice as many elements on one rank, and a job that hangs on after
its time-out: `torch-count`) and tensorflow/tensorflow#56885 (other shapes, and a check that names both: `tf-shape`).
"""

from __future__ import annotations

from breakrank import Case, Job, Scenario, at, crashed, detected, faults, hung, silent

GRADIENT = at(rank=1, step=3, point="collective")
SHAPE = [faults.ChangeCollective("shape") @ GRADIENT]
DTYPE = [faults.ChangeCollective("dtype") @ GRADIENT]
REDUCE = [faults.ChangeCollective("reduce") @ GRADIENT]
COUNT = [faults.ChangeCollective("count") @ GRADIENT]
#: In a program that takes its learning rate from rank 0, the first collective of a step.
ROOT = [faults.ChangeCollective("root") @ GRADIENT]


def differs(cause: str) -> dict[str, object]:
    """Return the finding that names what differs, and the rank that differs."""
    return {"oracle": "collectives", "rank": 1, "step": 3, "cause": cause}


NEVER_FULL = hung(oracle="progress", step=3, cause="participant missing")
SIZE, TYPE, REDUCTION = differs("shape mismatch"), differs("dtype mismatch"), differs("reduce op mismatch")
#: TensorFlow's programs have the last worker differ.
BY_THE_LAST = {"rank": -1}

#: With the oracle `collectives`, which judges the laws, the log has the inputs and outputs of each collective.
ORACLES = ("ends", "progress", "collectives", "finite", "replicas", "samples", "control", "checkpoint")

SCENARIO = Scenario(
    family="collectives",
    oracles=ORACLES,
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=REDUCE,
    cases=[
        Case("torch-shape", "averaging:plain", strikes=SHAPE, expect=silent(**SIZE)),
        Case("torch-shape-compared", "averaging:comparing", strikes=SHAPE, expect=detected(**SIZE)),
        Case("torch-dtype", "averaging:plain", strikes=DTYPE, expect=silent(**TYPE)),
        Case("torch-dtype-compared", "averaging:comparing", strikes=DTYPE, expect=detected(**TYPE)),
        # Gloo reduces half of the tensor on each rank, and both get the same: one half summed, one half the greatest.
        Case("torch-reduce", "averaging:plain", strikes=REDUCE, expect=silent(**REDUCTION)),
        Case("torch-reduce-verified", "averaging:verified", strikes=REDUCE, expect=detected(**REDUCTION)),
        Case("torch-count", "averaging:plain", strikes=COUNT, expect=crashed(**SIZE)),
        Case("torch-count-checked", "averaging:checked", strikes=COUNT, expect=detected(**SIZE)),
        Case("torch-root", "averaging:scheduled", strikes=ROOT, expect=NEVER_FULL),
        Case(
            "torch-root-limited",
            "averaging:scheduled_within_limit",
            strikes=ROOT,
            expect=detected(**differs("root mismatch")),
        ),
        Case(
            "tf-shape",
            "workers:other_shape",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=silent(**{**SIZE, **BY_THE_LAST}),
        ),
        Case(
            "tf-dtype",
            "workers:other_dtype",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=detected(**{**TYPE, **BY_THE_LAST}),
        ),
        # TensorFlow sums, and divides a mean by itself: to the collective, both are the same.
        Case(
            "tf-mean",
            "workers:averaged",
            framework="tensorflow",
            strikes=(),
            control="workers:plain",
            expect=silent(oracle="replicas", step=3, cause="replicas differ"),
        ),
    ],
)
