"""Stages of a pipeline do not take the same micro-batches: each shuffles by itself, or cuts a batch otherwise.

The first stage has the images and the last one the labels: with another order, every label is of another image.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent
from breakrank.verdict import Record


def case(name: str, function: str, control: str, expect: Record) -> Case:
    """Return a case, beside the same with the cure."""
    return Case(f"torch-{name}", f"pipeline:{function}", control=f"pipeline:{control}", expect=expect)


SCENARIO = Scenario(
    family="data",
    without={"tensorflow": "it has no pipelines"},
    job=Job(ranks=2, steps=6, data="digits"),
    cases=[
        case(
            "shuffled-by-each",
            "shuffled_by_each",
            "shuffled_alike",
            silent(oracle="samples", rank=1, step=1, cause="samples lost"),
        ),
        case("shuffled-alike", "shuffled_alike", "shuffled_alike", SURVIVED),
        case("cut-by-each", "cut_by_each", "cut_alike", DETECTED),
        case("cut-alike", "cut_alike", "cut_alike", SURVIVED),
    ],
)
