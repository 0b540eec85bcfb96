"""Workers take the mean losses of their own samples, and the gradients are added up: a multiple of the mean.

Seen in the wild: tensorflow/tensorflow#45923 (a loop of one's own, whose loss is a multiple of the one that `fit` has).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent

# A global batch of 64 samples is shared out evenly among two.
FOR_TWO = (2,)

SCENARIO = Scenario(
    family="numeric",
    without={"torch": "DistributedDataParallel averages: see uneven_batches"},
    job=Job(ranks=2, steps=8, deadline_s=10.0, data="digits"),
    oracles=("ends", "placement", "progress", "finite", "replicas", "reference", "samples", "control"),
    cases=[
        Case(
            "tf-summing-means",
            "uneven_workers:summing_means",
            framework="tensorflow",
            sizes=FOR_TWO,
            control="uneven_workers:dropping_the_rest",
            expect=silent(oracle="reference", step=1, cause="reference mismatch"),
        ),
        Case(
            "tf-averaging-means",
            "uneven_workers:dropping_the_rest",
            framework="tensorflow",
            sizes=FOR_TWO,
            control="uneven_workers:dropping_the_rest",
            expect=SURVIVED,
        ),
    ],
)
