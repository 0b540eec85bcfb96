"""A checkpoint in shards, saved by four ranks, is read by the two that are left: all of its shards, or two of them.

The launcher starts the ranks that are left as a smaller job. A loop over the ranks that there are reads no other shard,
and a load that is not strict does not miss it.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent
from breakrank.verdict import Record


def case(name: str, function: str, expect: Record) -> Case:
    """Return a case for four ranks: sums over two are rounded otherwise."""
    return Case(name, f"reshaped:{function}", sizes=(4,), tolerance=1e-4, expect=expect)


SCENARIO = Scenario(
    family="storage",
    without={"tensorflow": "saves from one place: its workers write no shards of a model"},
    job=Job(ranks=4, steps=6, data="digits", restarts=1, elastic=True),
    strikes=[faults.Kill() @ at(rank=rank, step=4, point="collective") for rank in (2, 3)],
    cases=[
        case("torch-by-ranks", "by_ranks", silent(oracle="control", step=1, cause="wrong result")),
        case("torch-all-shards", "all_shards", SURVIVED),
        case("torch-distributed-checkpoint", "distributed_checkpoint", SURVIVED),
    ],
)
