"""Sketches of parameters: the distance that they tell is the true one, about, and any framework makes the same."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from array import array

import pytest

from breakrank_agent.agent.sketch import ROW, SUMS, Sketch

numpy = pytest.importorskip("numpy")


def sketch(*parts):
    made = Sketch(lambda signs: numpy.frombuffer(signs, "int8").astype("float64"))
    for part in parts:
        made.add([numpy.asarray(vector, "float64") for vector in part])
    return made


def distance(one, other):
    """Return the distance of two sketches' first parts."""
    return (sum((a - b) ** 2 for a, b in zip(one.sums[0], other.sums[0], strict=True)) / SUMS) ** 0.5


def numbers(size, seed):
    draw = random.Random(seed)
    return numpy.array([draw.gauss(0, 1) for _ in range(size)])


@pytest.mark.parametrize("size", [2, ROW - 1, ROW, ROW + 1, 5 * ROW + 7])
def test_it_tells_the_distance_within_a_factor_of_two_in_most_cases(size):
    told = []
    for seed in range(40):
        here, difference = numbers(size, seed), 1e-7 * numbers(size, seed + 1000)
        true = float(numpy.linalg.norm(difference))
        told.append(distance(sketch([here]), sketch([here + difference])) / true)
    assert sum(0.5 < one < 2 for one in told) >= 36
    assert 0.8 < sum(told) / len(told) < 1.2


@pytest.mark.parametrize("size", [1, ROW, 3 * ROW + 1])
def test_one_element_that_differs_is_told_exactly(size):
    here = numbers(size, 1)
    there = here.copy()
    there[size // 2] += 2.0**-20
    assert distance(sketch([here]), sketch([there])) == pytest.approx(2.0**-20, rel=1e-6)


def test_equal_differences_in_each_row_do_not_cancel_out():
    rows = 64
    assert 0.4 < distance(sketch([numpy.ones(rows * ROW)]), sketch([numpy.zeros(rows * ROW)])) / (rows * ROW) ** 0.5 < 2


def test_vectors_of_one_part_do_not_share_their_signs():
    one = numbers(100, 3)
    assert distance(sketch([one, -one]), sketch([0 * one, 0 * one])) > 1


def test_it_is_the_same_in_each_process_and_with_plain_torch():
    torch = pytest.importorskip("torch")
    here = numbers(2 * ROW + 3, 5)
    made = Sketch(lambda signs: torch.frombuffer(bytearray(signs), dtype=torch.int8).double())
    made.add([torch.frombuffer(array("d", here), dtype=torch.float64)])
    assert made.sums[0] == pytest.approx(sketch([here]).sums[0], abs=1e-9)
    code = (
        "import json, numpy, sys; from breakrank_agent.agent.sketch import Sketch; "
        "s = Sketch(lambda b: numpy.frombuffer(b, 'int8').astype('float64')); "
        "s.add([numpy.array(json.load(sys.stdin))]); print(json.dumps(s.sums))"
    )
    other = subprocess.run([sys.executable, "-c", code], input=json.dumps(list(here)), capture_output=True, text=True)
    assert json.loads(other.stdout)[0] == pytest.approx(sketch([here]).sums[0], abs=1e-9)


def test_norms_and_sizes_are_those_of_the_parts():
    made = sketch([[3.0], [4.0]], [[1.0, 1.0]])
    assert made.facts()["norms"] == [5.0, pytest.approx(2**0.5)]
    assert made.facts()["sizes"] == [2, 2]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e200])
def test_there_is_none_of_what_is_not_finite(wrong):
    with numpy.errstate(all="ignore"):
        assert sketch([[1.0]], [[2.0, wrong]]).facts() == {}
    assert sketch().facts() == {}
