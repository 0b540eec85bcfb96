"""Gradients are clipped by a wrong norm: each rank's own, or one in which shards are missing or replicas are doubled.

Seen in the wild: NVIDIA/Megatron-LM#7452 (parameters without a mark, whose shards are left out of the norm).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Record

# Each rank scales what it has for itself from the first step on; sums are looked at from the second one on.
OWN = silent(oracle="optimizers", step=1, cause="norm miscounted")
SUMMED = silent(oracle="optimizers", step=2, cause="norm miscounted")


def case(name: str, program: str, control: str, expect: Record) -> Case:
    """Return a case of a program, beside a control in the same file."""
    return Case(f"torch-{name}", program, control=f"{program.partition(':')[0]}:{control}", expect=expect)


SCENARIO = Scenario(
    family="numeric",
    job=Job(ranks=2, steps=6, data="digits"),
    oracles=(*DEFAULT_ORACLES, "collectives"),
    cases=[
        case("own-norm", "sequence_parallel:clipped_by_own_norm", "clipped", OWN),
        case("by-torch", "sequence_parallel:clipped_by_torch", "clipped", OWN),
        case("without-shards", "sequence_parallel:clipped_without_shards", "clipped", SUMMED),
        case("with-copies", "sequence_parallel:clipped_with_copies", "clipped", SUMMED),
        case("clipped", "sequence_parallel:clipped", "clipped", SURVIVED),
        case("own-shards", "fully_sharded:clipped_by_own_shards", "clipped", OWN),
        case("all-shards", "fully_sharded:clipped", "clipped", SURVIVED),
        case("flat-by-torch", "fully_sharded:flat_and_clipped_by_torch", "flat_and_clipped", OWN),
        case("flat", "fully_sharded:flat_and_clipped", "flat_and_clipped", SURVIVED),
        case("mixed", "fully_sharded:mixed_in_a_norm", "left_out_and_averaged", DETECTED),
        Case(
            "tf-by-each",
            "summing_workers:clipped_by_each",
            framework="tensorflow",
            control="summing_workers:clipped",
            expect=silent(oracle="control", step=1, cause="wrong result"),
        ),
        Case(
            "tf-clipped",
            "summing_workers:clipped",
            framework="tensorflow",
            control="summing_workers:clipped",
            expect=SURVIVED,
        ),
    ],
)
