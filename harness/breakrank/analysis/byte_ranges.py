"""The bytes that accesses touch of a storage, and those that two of them have in common."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from breakrank_agent.protocol.events import AccessEvent


def overlap(one: AccessEvent, other: AccessEvent) -> bool:
    """Return whether two accesses have a byte in common: by their ranges first, then exactly."""
    if "lo" not in one or "lo" not in other:
        return True
    if one["hi"] <= other["lo"] or other["hi"] <= one["lo"]:
        return False
    if not any(event.get("shape") or event.get("pieces") for event in (one, other)):
        return True
    return any(_meet(a, b) for a, b in _near(one, other))


def common(one: AccessEvent, other: AccessEvent) -> tuple[int, int]:
    """Return the first bytes that two accesses have in common, or the range in which they lie."""
    met = next((pair for pair in _near(one, other) if _meet(*pair)), None)
    if met is not None:
        return max(box.lo for box in met), min(box.hi for box in met)
    return max(one["lo"], other["lo"]), min(one["hi"], other["hi"])


def _near(one: AccessEvent, other: AccessEvent) -> Iterator[tuple[_Box, _Box]]:
    """Yield the pieces of two accesses whose ranges overlap."""
    mine, theirs = _pieces(one), _pieces(other)
    begin, end = [piece.lo for piece in theirs], [piece.hi for piece in theirs]
    for piece in mine:
        for near in theirs[bisect_right(end, piece.lo) : bisect_left(begin, piece.hi)]:
            yield piece, near


def _pieces(event: AccessEvent) -> list[_Box]:
    """Return the pieces that an index names; an access without an index is one piece."""
    return [_Box(lo, hi - lo, ()) for lo, hi in event.get("pieces", ())] or [_box(event)]


class _Box(NamedTuple):
    """Bytes with gaps: `item` bytes from `lo` on, again and again by sizes and strides, the longest stride first."""

    lo: int
    item: int
    dimensions: tuple[tuple[int, int], ...]

    @property
    def hi(self) -> int:
        """The end of the last byte."""
        return self.lo + sum((size - 1) * stride for size, stride in self.dimensions) + self.item


def _box(event: AccessEvent) -> _Box:
    if not event.get("shape"):
        return _Box(event["lo"], event["hi"] - event["lo"], ())
    pairs = sorted(zip(event["shape"], event["strides"], strict=True), key=lambda pair: -pair[1])
    kept = [(size, stride) for size, stride in pairs if size > 1 and stride]
    item = event["item"]
    # Pieces that lie side by side are one piece.
    while kept and kept[-1][1] == item:
        item *= kept.pop()[0]
    return _Box(event["lo"], item, tuple(kept))


def _meet(one: _Box, other: _Box) -> bool:
    """Return whether two boxes have a byte in common; the larger one is taken apart along its longest stride."""
    if one.hi <= other.lo or other.hi <= one.lo:
        return False
    if not one.dimensions and not other.dimensions:
        return True
    if not one.dimensions or (other.dimensions and other.hi - other.lo > one.hi - one.lo):
        one, other = other, one
    (size, stride), *rest = one.dimensions
    reach = one.hi - one.lo - (size - 1) * stride
    # Only those pieces that come near the other box are looked at.
    first = max(0, -((one.lo + reach - other.lo - 1) // stride))
    last = min(size - 1, (other.hi - 1 - one.lo) // stride)
    pieces = (_Box(one.lo + i * stride, one.item, tuple(rest)) for i in range(first, last + 1))
    return any(_meet(piece, other) for piece in pieces)
