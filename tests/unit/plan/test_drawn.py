"""The chance of a fault: it is drawn from the seed before the run, and a place that is given stays."""

from __future__ import annotations

from breakrank.plan.build import resolve
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

WHERE = at(rank=1, step=2, point="step")


def drawn(fault, seed=0):
    return resolve(fault @ WHERE, 0, 2, seed, "scenario").fault


def test_places_come_from_the_seed():
    assert drawn(faults.CorruptWeights()) == drawn(faults.CorruptWeights())
    assert drawn(faults.CorruptWeights()) != drawn(faults.CorruptWeights(), seed=1)


def test_a_place_that_is_given_moves_no_other():
    free, given = drawn(faults.CorruptWeights()), drawn(faults.CorruptWeights(tensor=3))
    assert (given.tensor, given.element, given.bit) == (3, free.element, free.bit)


def test_a_fault_without_chance_is_itself():
    fault = faults.FlipBit()
    assert drawn(fault) is fault
