"""A world shrinks, and grows again: a rank is killed, the other goes on alone, and then the lost host is back.

The launcher ends the ranks and starts them anew each time, as torchrun does where the number of nodes is a range
(`--nnodes=1:2`). All that was made for another number of ranks, and saved, has to be made anew: the sampler's share, a
rate that is scaled by the ranks, an optimizer in parts.

Seen in the wild: huggingface/transformers#PR23111 (rank 0 alone saves its part of the optimizer:
`torch-saved-by-rank-0`).
"""

from __future__ import annotations

from breakrank import SURVIVED, Case, Job, Scenario, at, faults, silent
from breakrank.verdict import Record


def case(name: str, program: str, expect: Record, framework: str = "torch") -> Case:
    """Return a case for two ranks: sums over one are rounded otherwise."""
    return Case(name, program, framework=framework, sizes=(2,), tolerance=1e-4, expect=expect)


def of_torch(name: str, expect: Record) -> Case:
    """Return a case of torch."""
    return case(f"torch-{name}", f"regrown:{name.replace('-', '_')}", expect)


def of_tensorflow(name: str, expect: Record) -> Case:
    """Return a case of TensorFlow."""
    return case(f"tf-{name}", f"regrown_workers:{name.replace('-', '_')}", expect, "tensorflow")


LOST = silent(oracle="samples", cause="samples lost")
TWICE = silent(oracle="samples", step=1, cause="duplicate shard")
WRONG = silent(oracle="control", cause="wrong result")

SCENARIO = Scenario(
    family="process",
    job=Job(ranks=2, steps=9, restarts=2, elastic=True, data="digits"),
    strikes=[
        faults.Kill() @ at(rank=1, step=4, point="collective"),
        faults.Rejoin() @ at(rank=0, step=3, attempt=1),
    ],
    cases=[
        of_torch("share-of-the-first-world", LOST),
        of_torch("share-of-the-saved-world", TWICE),
        of_torch("rate-of-the-saved-world", WRONG),
        of_torch("momentum-of-the-saved-world", WRONG),
        of_torch("saved-by-rank-0", WRONG),
        of_torch("following", SURVIVED),
        of_tensorflow("share-of-the-first-cluster", LOST),
        of_tensorflow("share-of-the-saved-cluster", TWICE),
        of_tensorflow("rate-of-the-saved-cluster", WRONG),
        of_tensorflow("momentum-of-the-saved-cluster", WRONG),
        of_tensorflow("following", SURVIVED),
    ],
)
