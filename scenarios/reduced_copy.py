"""A collective reduces a copy of a gradient, and the optimizer takes the gradient itself, which is each rank's own.

`contiguous`, a list of rows and another precision make a copy, and a functional collective returns the sum.
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Record

DROPPED = silent(oracle="replicas", step=1, cause="reduction dropped")


def case(name: str, function: str, control: str, expect: Record = DROPPED) -> Case:
    """Return a case, beside the same with the cure."""
    return Case(f"torch-{name}", f"copies:{function}", control=f"copies:{control}", expect=expect)


SCENARIO = Scenario(
    family="collectives",
    job=Job(ranks=2, steps=5, data="digits"),
    oracles=(*DEFAULT_ORACLES, "collectives"),
    cases=[
        case("contiguous-copy", "contiguous_copy", "contiguous_and_back"),
        case("contiguous-and-back", "contiguous_and_back", "contiguous_and_back", SURVIVED),
        case("rows-by-index", "rows_by_index", "rows_and_back"),
        case("rows-and-back", "rows_and_back", "rows_and_back", SURVIVED),
        case("half-precision-copy", "half_precision_copy", "half_precision_and_back"),
        case("half-precision-and-back", "half_precision_and_back", "half_precision_and_back", SURVIVED),
        case("returned-and-dropped", "returned_and_dropped", "returned_and_taken"),
        case("returned-and-taken", "returned_and_taken", "returned_and_taken", SURVIVED),
        Case(
            "tf-dropped",
            "summing_workers:dropped",
            framework="tensorflow",
            control="summing_workers:summed",
            expect=silent(oracle="replicas", step=1, cause="replicas differ"),
        ),
        Case(
            "tf-summed",
            "summing_workers:summed",
            framework="tensorflow",
            control="summing_workers:summed",
            expect=SURVIVED,
        ),
    ],
)
