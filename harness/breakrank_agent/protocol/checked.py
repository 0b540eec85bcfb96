"""Bytes from outside have no shape until they were checked: their size, how deep they nest, their names and values.

A reader of a socket, a pipe, a log or a file that another process may write takes objects from `parse`, and names
what is to be in them with `check`. Both raise `Unfit` for all else, with the reason as a clause.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Callable

#: The most levels of lists and objects. Our own records nest to a quarter of it.
DEPTH = 32
#: The longest text, and the largest number, that is taken where nothing else is said.
TEXT, NUMBER = 1 << 16, (1 << 63) - 1

#: A string, or the rest of one that never ends, which is passed over as a whole; or a bracket.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)

Kind = Callable[[Any], bool]
Shape = Mapping[str, Kind]


class Unfit(ValueError):
    """Bytes that are not what they have to be; the message says why, in a clause."""


def parse(data: bytes, most: int = TEXT) -> dict[str, Any]:
    """Return the JSON object that the bytes are. Raises `Unfit`."""
    if len(data) > most:
        raise Unfit(f"it has {len(data)} bytes, which is more than {most}")
    if nests_deeper(data, DEPTH):
        raise Unfit(f"it nests deeper than {DEPTH} levels")
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise Unfit("it is no JSON") from None
    if type(value) is not dict:
        raise Unfit("it is no object")
    return value


def nests_deeper(data: bytes, levels: int) -> bool:
    """Return whether lists and objects nest deeper than `levels`, without making any of them."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    depth = 0
    for token in _TOKEN.findall(data):
        if token in (b"[", b"{"):
            depth += 1
            if depth > levels:
                return True
        elif token in (b"]", b"}"):
            depth -= 1
    return False


def check(value: Mapping[str, Any], required: Shape, optional: Shape = {}) -> None:  # noqa: B006 - it is only read
    """Check the members of an object that are named here. Raises `Unfit`."""
    for name, kind in required.items():
        if name not in value:
            raise Unfit(f"it has no {name!r}")
        if not kind(value[name]):
            raise Unfit(f"its {name!r} cannot be {value[name]!r:.60}")
    for name, kind in optional.items():
        if name in value and not kind(value[name]):
            raise Unfit(f"its {name!r} cannot be {value[name]!r:.60}")


def is_text(value: Any) -> bool:
    """Return whether a value is text of a bounded length."""
    return type(value) is str and len(value) <= TEXT


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false."""
    return type(value) is bool


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return (type(value) is int and abs(value) <= NUMBER) or (type(value) is float and math.isfinite(value))


def whole(least: int = 0, most: int = NUMBER) -> Kind:
    """Return a check for a whole number between these two."""
    return lambda value: type(value) is int and least <= value <= most


def maybe(kind: Kind) -> Kind:
    """Return a check for such a value, or none."""
    return lambda value: value is None or kind(value)


def listing(of: Kind) -> Kind:
    """Return a check for a list of such values."""
    return lambda value: type(value) is list and all(map(of, value))


def row(*kinds: Kind) -> Kind:
    """Return a check for a list of as many values, of one kind each."""
    return lambda value: type(value) is list and len(value) == len(kinds) and all(k(v) for k, v in zip(kinds, value))
