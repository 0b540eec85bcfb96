"""Values that come from a file, checked against the annotations of the dataclass that takes them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Callable

#: The largest number, unless its field says less: it fits into eight bytes.
_MOST = 2**63 - 1
#: The most that a list holds, and how long a text is: a replayed schedule has one number a move.
_MOST_ITEMS, _MOST_TEXT = 10_000_000, 1_000_000


class Unfit(ValueError):
    """A value is not what its field takes; the message names the field, the value and what is allowed."""


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) <= _MOST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (type(value) is float and math.isfinite(value))


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= _MOST_TEXT and "\0" not in value


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, (list, tuple)) and len(value) <= _MOST_ITEMS and all(map(fits, value))


def _is_wholes(value: Any) -> bool:
    return _is_list(value, _is_whole)


def _is_plain(value: Any) -> bool:
    """Return whether a value is null, a scalar, or a list of scalars."""
    scalar = value is None or type(value) is bool or _is_number(value) or _is_text(value)
    return scalar or _is_list(value, lambda item: _is_number(item) or _is_text(item))


#: By annotation: what it takes, in words, and whether a value is that. A truth value is no number here.
_TAKES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("true or false", lambda value: type(value) is bool),
    "int": ("a whole number", _is_whole),
    "Optional[int]": ("null or a whole number", lambda value: value is None or _is_whole(value)),
    "float": ("a finite number", _is_number),
    "str": ("a text", _is_text),
    "Union[int, str]": ("a whole number or a text", lambda value: _is_whole(value) or _is_text(value)),
    "Optional[Any]": ("null, a number, a text, or a list of them", _is_plain),
    "tuple[str, ...]": ("a list of texts", lambda value: _is_list(value, _is_text)),
    "tuple[int, ...]": ("a list of whole numbers", _is_wholes),
    "tuple[tuple[int, ...], ...]": ("a list of lists of whole numbers", lambda value: _is_list(value, _is_wholes)),
    "Mapping[str, str]": (
        "an object of texts",
        lambda value: isinstance(value, Mapping) and all(_is_text(k) and _is_text(v) for k, v in value.items()),
    ),
}


def check_fields(kind: Any, values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the values as the dataclass `kind` holds them (lists become tuples); fields without one keep their own.

    A field with an annotation that is none of ours, as a plan's strikes, is left as it is. Raises `Unfit` for the first
    value that is not what its annotation says; `what` names it, as in `strike 0`.
    """
    annotations = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    checked = dict(values)
    for name, value in values.items():
        takes = _TAKES.get(annotations.get(name, ""))
        if takes is None:
            continue
        words, fits = takes
        if not fits(value):
            raise Unfit(f"{what}: {name} is {shown(value)}, not {words}")
        checked[name] = _as_tuple(value) if annotations[name].startswith("tuple") else value
    return checked


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(tuple(item) if isinstance(item, list) else item for item in value)


def shown(value: Any) -> str:
    """Return a value as an error shows it, cut to a few words."""
    if isinstance(value, (list, tuple, dict)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if type(value) is int and abs(value) > _MOST:
        return "a number of more than eight bytes"
    text = ascii(value[:60]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
