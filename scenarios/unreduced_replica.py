"""A small parameter is a replica in a model that is divided, and nothing reduces its gradient, as if it were a shard.

Seen in the wild: NVIDIA/Megatron-LM#1446 (the weight of a norm, with sequence parallelism).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Record


def case(name: str, program: str, control: str, expect: Record) -> Case:
    """Return a case of a program, beside a control in the same file."""
    return Case(f"torch-{name}", program, control=f"{program.partition(':')[0]}:{control}", expect=expect)


SCENARIO = Scenario(
    family="sync",
    without={"tensorflow": "see unreduced_updates"},
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=(*DEFAULT_ORACLES, "collectives"),
    cases=[
        # The first step has length 0: replicas part in the second one.
        case(
            "norm-unreduced",
            "sequence_parallel:unreduced",
            "reduced",
            silent(oracle="replicas", step=2, cause="gradients differ"),
        ),
        case("norm-reduced", "sequence_parallel:reduced", "reduced", SURVIVED),
        case(
            "norm-summed-apart",
            "sequence_parallel:summed_apart",
            "summed_together",
            silent(oracle="replicas", step=2, cause="reduction dropped"),
        ),
        case("norm-summed-together", "sequence_parallel:summed_together", "summed_together", SURVIVED),
        case(
            "left-out-of-shards",
            "fully_sharded:left_out",
            "left_out_and_averaged",
            silent(oracle="replicas", step=1, cause="gradients differ"),
        ),
        case("left-out-and-averaged", "fully_sharded:left_out_and_averaged", "left_out_and_averaged", SURVIVED),
    ],
)
