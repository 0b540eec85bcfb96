"""Parts of one job do not take the same samples: stages of a pipeline shuffle by themselves, or cut a batch otherwise.

The first stage has the images and the last one the labels: with another order, every label is of another image. So it
is on a mesh of devices that have the parts of images and of labels in two orders.
"""

from __future__ import annotations

from breakrank import DETECTED, SURVIVED, Case, Job, Scenario, silent
from breakrank.verdict import Record


def case(name: str, function: str, control: str, expect: Record) -> Case:
    """Return a case, beside the same with the cure."""
    return Case(f"torch-{name}", f"pipeline:{function}", control=f"pipeline:{control}", expect=expect)


SCENARIO = Scenario(
    family="data",
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
        Case(
            "tf-packed-in-two-orders",
            "device_mesh:packed_in_two_orders",
            framework="tensorflow",
            ranks=1,
            control="device_mesh:packed_in_one_order",
            expect=silent(oracle="control", rank=0, cause="wrong result"),
        ),
        Case(
            "tf-packed-in-one-order",
            "device_mesh:packed_in_one_order",
            framework="tensorflow",
            ranks=1,
            control="device_mesh:packed_in_one_order",
            expect=SURVIVED,
        ),
    ],
)
