"""Sketches of parameters: few numbers, of which the distance between two sets of parameters can be told.

The sketch of a vector x is the sums S_j = Σ s_j(i) x_i, with signs s_j(i) that are fixed, as likely 1 as -1, and
uncorrelated. The mean of (S_j(a) - S_j(b))² is then an unbiased estimate of |a - b|² (Alon, Matias, Szegedy, "The space
complexity of approximating the frequency moments", 1996). With eight sums it is within a factor of two of the true
distance in most cases; where one element alone differs it is exact.

The sign of an element is that of its place in a row times that of its row, which keeps them uncorrelated: so one small
matrix serves all rows, and a sketch costs one product with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Callable

#: The number of sums.
SUMS = 8
#: The elements of a row.
ROW = 1024
#: The sign that a byte of a hash stands for, as a byte with a sign.
_SIGNS = bytes(1 if value & 1 else 255 for value in range(256))


class Sketch:
    """The sketches of the parts of the parameters, with the norm and the number of elements of each."""

    def __init__(self, array: Callable[[bytes], Any]) -> None:
        """Make one; `array` returns bytes with signs as 64-bit floating point of the framework."""
        self._array = array
        self._row = array(_signs("elements", ROW * SUMS)).reshape(ROW, SUMS)
        self._seen = 0
        self.sums: list[list[float]] = []
        self.norms: list[float] = []
        self.sizes: list[int] = []

    def add(self, part: Iterable[Any]) -> None:
        """Add a part, given as vectors in 64-bit floating point."""
        sums, square, size = [0.0] * SUMS, 0.0, 0
        for vector in part:
            self._seen += 1
            sums = [one + float(other) for one, other in zip(sums, self._project(vector))]
            square += float(vector @ vector)
            size += len(vector)
        self.sums.append(sums)
        self.norms.append(square**0.5)
        self.sizes.append(size)

    def facts(self) -> dict[str, Any]:
        """Return the fields of the event; empty where there is nothing, or something is not finite."""
        # A sum of squares is finite exactly when every term is, and then so is each sum with signs.
        if not self.sums or sum(self.norms) - sum(self.norms) != 0:
            return {}
        return {"sums": self.sums, "norms": self.norms, "sizes": self.sizes}

    def _project(self, vector: Any) -> Any:
        """Return the sums of one vector."""
        rows = len(vector) // ROW
        rest = vector[rows * ROW :]
        signs = self._array(_signs(str(self._seen), (rows + 1) * SUMS)).reshape(rows + 1, SUMS)
        whole = vector[: rows * ROW].reshape(rows, ROW) @ self._row
        return (whole * signs[:rows]).sum(0) + (rest @ self._row[: len(rest)]) * signs[rows]


def _signs(name: str, count: int) -> bytes:
    """Return signs that are the same in each process, those of a name."""
    return hashlib.shake_128(name.encode()).digest(count).translate(_SIGNS)
