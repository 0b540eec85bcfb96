"""Bits of numbers in memory: the fields of a floating-point word, and the ways in which hardware gets words wrong.

A fault of numbers and the table of docs/bits.md change words by this code alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from breakrank_agent.protocol.trigger import PlanError

#: The bits of the mantissa and of the exponent of each floating-point dtype; the sign is the bit above them.
LAYOUTS = {"bfloat16": (7, 8), "float16": (10, 5), "float32": (23, 8), "float64": (52, 11)}
#: The fields of a word that bits are drawn from.
FIELDS = ("sign", "exponent", "mantissa", "any")
#: The ways to be wrong: one bit; several neighbouring bits of one word; a bit that cannot change any more; all bits of
#: a field of one word, at random; one bit of each word in a row.
MODELS = ("bit", "bits", "stuck", "element", "row")


class Words(NamedTuple):
    """The memory of one tensor: its name, writable bytes, the dtype's name, and the length of its last dimension."""

    name: str
    raw: memoryview
    dtype: str
    row: int = 1


@dataclass(frozen=True)
class Corruption:
    """The words and bits that go wrong, among tensors that are known only when it happens.

    `tensor` and `element` count the tensors and the elements of one, and `bit` the bits of the `field` from its lowest;
    each is taken modulo the number of what there is. `count` is the number of bits of the model `bits`. Raises
    `PlanError` for another model or field.
    """

    model: str = "bit"
    field: str = "exponent"
    tensor: int = 0
    element: int = 0
    bit: int = 0
    count: int = 3
    #: Of a stuck bit, the value that it has from the first time on.
    stuck: dict[str, int] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise PlanError(f"words are not wrong by {self.model!r}; use one of {', '.join(MODELS)}")
        if self.field not in FIELDS:
            raise PlanError(f"a floating-point word has no field {self.field!r}; use one of {', '.join(FIELDS)}")

    def strike(self, tensors: Sequence[Words]) -> None:
        """Change the words. Raises `LookupError` if no tensor is of floating point."""
        known = [words for words in tensors if words.dtype in LAYOUTS and len(words.raw)]
        if not known:
            raise LookupError("there is no tensor of floating point")
        words = known[self.tensor % len(known)]
        size = width_of(words.dtype) // 8
        mask = self.mask(words.dtype)
        for element in self._elements(words, len(words.raw) // size):
            at = slice(element * size, (element + 1) * size)
            word = int.from_bytes(words.raw[at], "little")
            words.raw[at] = self._changed(word, mask).to_bytes(size, "little")

    def mask(self, dtype: str) -> int:
        """Return the bits that change, as a mask of the word."""
        first, size = field_of(dtype, self.field)
        if self.model == "element":
            drawn = hashlib.blake2b(f"{self.tensor}:{self.element}:{self.bit}".encode(), digest_size=8).digest()
            return (int.from_bytes(drawn, "little") % ((1 << size) - 1) + 1) << first
        count = min(self.count, size) if self.model == "bits" else 1
        return sum(1 << first + (self.bit + i) % size for i in range(count))

    def _elements(self, words: Words, count: int) -> Iterator[int]:
        """Yield the numbers of the words that change."""
        if self.model != "row":
            yield self.element % count
            return
        row = max(1, words.row)
        begin = self.element % count // row * row
        yield from range(begin, min(begin + row, count))

    def _changed(self, word: int, mask: int) -> int:
        if self.model != "stuck":
            return word ^ mask
        # The cell is stuck at the value that the word did not have when it broke, so that it is seen to break.
        value = self.stuck.setdefault("value", ~word & mask)
        return word & ~mask | value


def width_of(dtype: str) -> int:
    """Return the number of bits in a word."""
    return 1 + sum(LAYOUTS[dtype])


def field_of(dtype: str, name: str) -> tuple[int, int]:
    """Return the lowest bit of a field of a word, and the number of its bits."""
    mantissa, exponent = LAYOUTS[dtype]
    fields = {"mantissa": (0, mantissa), "exponent": (mantissa, exponent), "sign": (mantissa + exponent, 1)}
    return fields.get(name, (0, width_of(dtype)))


def field_with(dtype: str, bit: int) -> str:
    """Return the field that a bit of a word lies in."""
    mantissa, exponent = LAYOUTS[dtype]
    return "mantissa" if bit < mantissa else "exponent" if bit < mantissa + exponent else "sign"
