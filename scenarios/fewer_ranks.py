"""A rank is killed, and the others go on without it: the launcher starts them again as a smaller world.

The steps are the same as before if the global batch is, and each of its samples has the same weight. Shards that all
ranks have saved together are divided anew; those that a rank keeps in a file of its own fit no other world.

Seen in the wild: huggingface/transformers#PR23111 (resuming without the whole state of the optimizer).
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, at, faults, silent
from breakrank.verdict import Record


def case(name: str, program: str, expect: Record) -> Case:
    """Return a case: sums over other ranks are rounded otherwise."""
    return Case(f"torch-{name}", program, sizes=(2,), tolerance=1e-4, expect=expect)


SCENARIO = Scenario(
    family="process",
    without={"tensorflow": "see fewer_workers"},
    job=Job(ranks=2, steps=6, restarts=1, elastic=True, data="digits"),
    strikes=[faults.Kill() @ at(rank=1, step=4, point="optimize")],
    cases=[
        case(
            "share-of-the-old-world",
            "fewer_ranks:share_of_the_old_world",
            silent(oracle="samples", rank=0, step=1, cause="share of the old world"),
        ),
        case(
            "mean-of-the-old-world",
            "fewer_ranks:mean_of_the_old_world",
            silent(oracle="control", rank=0, cause="wrong result"),
        ),
        case("weights-only", "fewer_ranks:weights_only", silent(oracle="control", rank=0, cause="wrong result")),
        case("shared-out", "fewer_ranks:shared_out", SURVIVED),
        case("own-files", "own_shards:trusting", DETECTED),
    ],
)
