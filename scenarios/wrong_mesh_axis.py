"""Gradients are averaged along the wrong axis of a mesh: over ranks that have other parts of the parameters."""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Record

OTHERS = silent(oracle="replicas", step=1, cause="reduced over another group")


def case(name: str, function: str, control: str, expect: Record) -> Case:
    """Return a case: the mesh has two rows and two columns."""
    return Case(f"torch-{name}", f"meshes:{function}", control=f"meshes:{control}", sizes=(4,), expect=expect)


SCENARIO = Scenario(
    family="sync",
    without={"tensorflow": "a worker is in one group of its strategy"},
    job=Job(ranks=4, steps=5, data="digits"),
    oracles=(*DEFAULT_ORACLES, "collectives"),
    cases=[
        case("columns-over-parts", "columns_over_parts", "columns_over_replicas", OTHERS),
        case("columns-over-replicas", "columns_over_replicas", "columns_over_replicas", SURVIVED),
        case("shards-over-parts", "shards_over_parts", "shards_over_replicas", OTHERS),
        case("shards-over-replicas", "shards_over_replicas", "shards_over_replicas", SURVIVED),
    ],
)
