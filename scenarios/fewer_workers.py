"""A worker is killed, and the others go on without it: the launcher starts them again as a smaller cluster.

The steps are the same as with all workers, if the global batch is the same, and the weights are the last ones saved.
Seen from the workers that are left alone, another batch, another rate and fresh weights look just as good.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent
from breakrank.verdict import Record

# The global batch of 128 samples is the same before and after only if both numbers of workers divide it.
SIZES = (2,)


def case(name: str, function: str, expect: Record) -> Case:
    """Return a case: sums over other workers are rounded otherwise."""
    return Case(name, f"fewer_workers:{function}", framework="tensorflow", sizes=SIZES, tolerance=1e-4, expect=expect)


WRONG = silent(oracle="control", rank=0, step=1, cause="wrong result")

SCENARIO = Scenario(
    family="process",
    without={"torch": "the mistakes are the same in any framework: tried with TensorFlow"},
    job=Job(ranks=2, steps=6, restarts=1, elastic=True, data="digits"),
    strikes=[faults.Kill() @ at(rank=1, step=3, point="collective")],
    cases=[
        case("tf-own-share-alone", "own_share_alone", WRONG),
        case("tf-rate", "rate_of_the_workers", WRONG),
        case("tf-unrestored", "unrestored", WRONG),
        case("tf-shared-out", "shared_out", SURVIVED),
    ],
)
