"""The vocabulary of events as values: each kind with its fields, read from `breakrank_agent.protocol.events`."""

from __future__ import annotations

import ast
import functools
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from breakrank_agent.protocol import events
from breakrank_agent.protocol.events.not_required import NotRequired


class Field(NamedTuple):
    """One field of an event: its name, its type, whether it may be absent, and what is said of it."""

    name: str
    type: Any
    optional: bool
    text: str


class Kind(NamedTuple):
    """One kind of event: its name (empty for a part of an event), its class, its fields, and what is said of it."""

    name: str
    type: type
    fields: tuple[Field, ...]
    text: str


def rank_kinds() -> list[Kind]:
    """Return the kinds of events that a rank records."""
    return [kind_of(one) for one in typing.get_args(events.RankLine)]


def conductor_kinds() -> list[Kind]:
    """Return the kinds of events that the Conductor writes."""
    return [kind_of(one) for one in typing.get_args(events.ConductorLine)]


@functools.cache
def kind_of(declared: type) -> Kind:
    """Return what a `TypedDict` declares."""
    hints = typing.get_type_hints(declared, include_extras=True)
    name = typing.get_args(hints.pop("kind"))[0] if typing.get_origin(hints.get("kind")) is Literal else ""
    texts = _texts(declared.__name__)
    # Those of the class itself come first, and then those of its bases.
    own = sorted(hints, key=lambda one: one not in _sources()[declared.__name__].fields)
    fields = tuple(_field(one, hints[one], texts) for one in own)
    return Kind(name, declared, fields, _sources()[declared.__name__].text)


def parts_of(kind: Kind) -> Iterator[type]:
    """Yield the classes of the objects that an event holds, and of those that these hold."""
    for field in kind.fields:
        for part in _classes(field.type):
            yield part
            if part is not kind.type:
                yield from parts_of(kind_of(part))


def _classes(hint: Any) -> Iterator[type]:
    if typing.is_typeddict(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _classes(argument)


def _field(name: str, hint: Any, texts: Mapping[str, str]) -> Field:
    """Return a field. A text that stands in its type goes before one that stands below it."""
    marks = hint.__metadata__ if typing.get_origin(hint) is Annotated else ()
    said = [mark for mark in marks if isinstance(mark, str)]
    return Field(name, hint, NotRequired in marks, said[0] if said else texts.get(name, ""))


class _Source(NamedTuple):
    """The source of a class: its bases by name, its docstring, and the text below each field."""

    bases: tuple[str, ...]
    text: str
    fields: Mapping[str, str]


def _texts(name: str) -> dict[str, str]:
    """Return the texts below the fields of a class and of its bases."""
    source = _sources().get(name)
    if source is None:
        return {}
    below: dict[str, str] = {}
    for base in source.bases:
        below.update(_texts(base))
    return {**below, **source.fields}


@functools.cache
def _sources() -> Mapping[str, _Source]:
    """Return each class of the package by its name."""
    found: dict[str, _Source] = {}
    for path in sorted(Path(events.__path__[0]).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                bases = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
                found[node.name] = _Source(bases, ast.get_docstring(node) or "", dict(_below(node)))
    return found


def _below(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class that have a text below them."""
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            yield field.target.id, ast.literal_eval(text.value)
