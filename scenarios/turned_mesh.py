"""The ranks of one host lie in another order on a mesh: hosts make other groups, and wait for each other in the first.

A mesh of one axis over all ranks has their one group, in the order of their numbers, whatever order is asked for.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, hung
from breakrank.verdict import Record


def case(name: str, function: str, expect: Record) -> Case:
    """Return a case: the mesh has two rows and two columns."""
    return Case(
        f"torch-{name}", f"meshes:{function}", control="meshes:as_all_hosts_list_them", sizes=(4,), expect=expect
    )


SCENARIO = Scenario(
    family="environment",
    without={"tensorflow": "a worker is in one group of its strategy"},
    job=Job(ranks=4, steps=5, data="digits"),
    cases=[
        case("by-host", "as_the_host_lists_them", hung(oracle="progress", step=0, cause="group mismatch")),
        case("alike", "as_all_hosts_list_them", SURVIVED),
        case("compared", "as_compared", DETECTED),
    ],
)
