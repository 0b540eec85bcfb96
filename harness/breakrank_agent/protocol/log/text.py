"""The text of an event: one JSON object, without blanks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

#: The largest record: a longer one is cut by its writer and marked.
RECORD_LIMIT = 1 << 16


def _encoder() -> Callable[[Any], str]:
    """Return what writes plain values as JSON without blanks.

    The encoder in C is made once. `json.dumps` makes one at each call, which takes longer than an event does.
    """
    c_make_encoder = getattr(json.encoder, "c_make_encoder", None)
    if c_make_encoder is None:
        return json.JSONEncoder(separators=(",", ":"), default=str).encode
    encode_chunks = c_make_encoder(None, str, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True)
    return lambda value: "".join(encode_chunks(value, 0))


_to_json = _encoder()


def encode(event: Mapping[str, Any]) -> bytes:
    """Return the event as one line of JSON without its newline; an oversized one loses its longest text."""
    line = _to_json(event).encode()
    if len(line) <= RECORD_LIMIT:
        return line
    longest = max(event, key=lambda k: len(_to_json(event[k])))
    rest = {**event, longest: "(cut)", "cut": longest}
    line = _to_json(rest).encode()
    if len(line) <= RECORD_LIMIT:
        return line
    # Many long fields: what every event has is kept.
    kept = {name: event[name] for name in ("kind", "n", "seq", "step", "t") if name in event}
    return _to_json({**kept, "cut": "all"}).encode()


def event_text(kind: str, n: int, seq: str, step: int, now: float, values: str) -> bytes:
    """Return an event of which the values are JSON already, from the second on."""
    return f'{{"kind":"{kind}","n":{n},"seq":"{seq}","step":{step},"t":{now:.6f}{values}}}'.encode()


def members(values: Mapping[str, Any]) -> str:
    """Return values as further members of a JSON object that has some before them: `,"name":value` and so on."""
    return "".join([f',"{name}":{_value(value)}' for name, value in values.items()])


def _value(value: Any) -> str:
    """Return a value as JSON. Whole numbers, and lists of them, are JSON as Python writes them, which costs less."""
    kind = type(value)
    if kind is int or (kind is list and set(map(type, value)) == {int}):
        return str(value)
    return _to_json(value)
