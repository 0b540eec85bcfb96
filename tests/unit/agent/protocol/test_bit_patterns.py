"""Words that go wrong: the bits of each field, in each way, in memory of the test's own."""

from __future__ import annotations

import math
import struct

import pytest

from breakrank_agent.protocol.bits import LAYOUTS, Corruption, Words, field_of, field_with, width_of
from breakrank_agent.protocol.trigger import PlanError


def floats(*numbers: float, row: int = 1) -> Words:
    return Words("numbers", memoryview(bytearray(struct.pack(f"<{len(numbers)}f", *numbers))), "float32", row)


def read(words: Words) -> list[float]:
    return list(struct.unpack(f"<{len(words.raw) // 4}f", words.raw))


def test_the_sign_of_one_element_flips():
    words = floats(1.0, 2.0, 3.0)
    Corruption(field="sign", element=4).strike([words])
    assert read(words) == [1.0, -2.0, 3.0]


def test_the_lowest_bit_of_an_exponent_doubles_or_halves():
    words = floats(0.75, 1.5)
    for element in (0, 1):
        Corruption(field="exponent", element=element, bit=8).strike([words])
    assert read(words) == [1.5, 0.75]


def test_the_highest_bit_of_an_exponent_makes_a_small_number_huge():
    words = floats(0.01)
    Corruption(field="exponent", bit=7).strike([words])
    assert math.isclose(read(words)[0], 0.01 * 2.0**128, rel_tol=1e-6)


def test_several_bits_are_of_one_word_and_one_field():
    assert Corruption("bits", "mantissa", bit=22).mask("float32") == 1 << 22 | 1 << 0 | 1 << 1
    assert Corruption("bits", "sign").mask("float32") == 1 << 31


def test_an_element_changes_in_its_field_alone():
    for tensor in range(50):
        mask = Corruption("element", "mantissa", tensor).mask("bfloat16")
        assert 0 < mask < 1 << 7


def test_a_row_is_the_last_dimension_around_the_element():
    words = floats(*[1.0] * 8, row=4)
    Corruption("row", "sign", element=6).strike([words])
    assert read(words) == [1.0] * 4 + [-1.0] * 4


def test_a_stuck_bit_stays_as_it_was_first_seen_to_break():
    stuck, words = Corruption("stuck", "sign"), floats(1.0)
    stuck.strike([words])
    assert read(words) == [-1.0]
    stuck.strike([words])
    assert read(words) == [-1.0]
    words.raw[:] = struct.pack("<f", 2.0)
    stuck.strike([words])
    assert read(words) == [-2.0]


def test_whole_numbers_are_passed_over():
    count, words = Words("count", memoryview(bytearray(8)), "int64"), floats(1.0)
    Corruption(field="sign").strike([count, words])
    assert read(words) == [-1.0] and bytes(count.raw) == bytes(8)
    with pytest.raises(LookupError, match="no tensor of floating point"):
        Corruption().strike([count])


@pytest.mark.parametrize("dtype", LAYOUTS)
def test_each_bit_lies_in_the_field_that_has_it(dtype):
    for bit in range(width_of(dtype)):
        first, size = field_of(dtype, field_with(dtype, bit))
        assert first <= bit < first + size


@pytest.mark.parametrize(("values", "words"), [({"model": "burst"}, "by 'burst'"), ({"field": "tail"}, "field 'tail'")])
def test_an_unknown_model_or_field_is_refused(values, words):
    with pytest.raises(PlanError, match=words):
        Corruption(**values)
