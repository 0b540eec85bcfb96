"""One rank calls a collective with another shape, dtype, count, reduction or root than its peers.

Seen in the wild: NVIDIA/nccl#1394 (tensors of another size on one rank: a hang, an abort, or a wrong sum)
and pytorch/pytorch#97191 (twice as many elements on one rank, and a job that hangs on after its time-out).
"""

from __future__ import annotations

from breakrank import DETECTED, Case, Job, Scenario, at, crashed, faults, hung, silent

GRADIENT = at(rank=1, step=3, point="collective")
SHAPE = [faults.ChangeCollective("shape") @ GRADIENT]
DTYPE = [faults.ChangeCollective("dtype") @ GRADIENT]
REDUCE = [faults.ChangeCollective("reduce") @ GRADIENT]
COUNT = [faults.ChangeCollective("count") @ GRADIENT]
#: In a program that takes its learning rate from rank 0, the first collective of a step.
ROOT = [faults.ChangeCollective("root") @ GRADIENT]

PARTED = silent(oracle="replicas", step=3, cause="replicas differ")

SCENARIO = Scenario(
    family="collectives",
    job=Job(ranks=2, steps=6, data="digits", patience_s=5.0),
    strikes=REDUCE,
    cases=[
        Case("torch-shape", "averaging:plain", strikes=SHAPE, expect=PARTED),
        Case("torch-shape-compared", "averaging:comparing", strikes=SHAPE, expect=DETECTED),
        Case("torch-dtype", "averaging:plain", strikes=DTYPE, expect=PARTED),
        Case("torch-dtype-compared", "averaging:comparing", strikes=DTYPE, expect=DETECTED),
        # Gloo reduces half of the tensor on each rank, and both get the same: one half summed, one half the greatest.
        Case(
            "torch-reduce",
            "averaging:plain",
            strikes=REDUCE,
            expect=silent(oracle="control", step=3, cause="wrong result"),
        ),
        Case("torch-reduce-verified", "averaging:verified", strikes=REDUCE, expect=DETECTED),
        Case("torch-count", "averaging:plain", strikes=COUNT, expect=crashed()),
        Case("torch-count-checked", "averaging:checked", strikes=COUNT, expect=DETECTED),
        Case("torch-root", "averaging:scheduled", strikes=ROOT, expect=hung(oracle="progress")),
        Case("torch-root-limited", "averaging:scheduled_within_limit", strikes=ROOT, expect=DETECTED),
    ],
)
