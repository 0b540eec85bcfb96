"""Each rank divides its loss by the number of labels that it has itself, and samples weigh otherwise on each.

Seen in the wild: NVIDIA/Megatron-LM#7452 (counts of a rank, with multi-token prediction and with context parallelism).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES

SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=(*DEFAULT_ORACLES, "collectives"),
    cases=[
        # The first step has length 0.
        Case(
            "torch-rows-by-rank",
            "sequence_parallel:counted_by_rank",
            control="sequence_parallel:reduced",
            expect=silent(oracle="control", step=2, cause="loss scaled otherwise"),
        ),
        Case("torch-rows-by-all", "sequence_parallel:reduced", control="sequence_parallel:reduced", expect=SURVIVED),
        Case(
            "torch-shards-by-rank",
            "fully_sharded:counted_by_rank",
            control="fully_sharded:counted_by_all",
            expect=silent(oracle="control", step=1, cause="loss scaled otherwise"),
        ),
        Case(
            "torch-shards-by-all",
            "fully_sharded:counted_by_all",
            control="fully_sharded:counted_by_all",
            expect=SURVIVED,
        ),
        Case(
            "tf-by-worker",
            "summing_workers:counted_by_worker",
            framework="tensorflow",
            control="summing_workers:summed",
            expect=silent(oracle="control", step=1, cause="wrong result"),
        ),
        Case(
            "tf-by-all",
            "summing_workers:summed",
            framework="tensorflow",
            control="summing_workers:summed",
            expect=SURVIVED,
        ),
    ],
)
