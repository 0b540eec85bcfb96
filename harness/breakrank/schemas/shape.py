"""Check a value against a schema: the part of JSON Schema that ours are written in.

Every event that is read is checked, for which a validator of all of JSON Schema takes too long. Fields that a schema
does not name are allowed here: a later version may have written them, and nobody reads them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from breakrank.schemas import schema

Fits = Callable[[Any], bool]

#: By JSON's name of a type; a truth value is no number.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


class Shape:
    """The fields that an object of one kind must have, and what each must be."""

    def __init__(self, said: Mapping[str, Any], defined: Mapping[str, Any]) -> None:
        self.required = tuple(said.get("required", ()))
        self.fields: dict[str, Fits] = {n: _fits(one, defined) for n, one in said.get("properties", {}).items()}

    def wrong(self, value: Mapping[str, Any]) -> str:
        """Return what is wrong with an object, in a clause; empty if nothing is.

        Of a record that was cut, the fields that were cut out are not missed.
        """
        cut = value.get("cut")
        fields = self.fields
        for name, held in value.items():
            fits = fields.get(name)
            if fits is not None and not fits(held) and not (name == cut and held == "(cut)"):
                return f"its {name} is {_shown(held)}"
        if cut != "all":
            for name in self.required:
                if name not in value:
                    return f"it has no {name}"
        return ""


@functools.cache
def shapes(name: str) -> Mapping[str, Shape]:
    """Return the shapes of the events of a schema (`event` or `conductor`), by their kind."""
    said = schema(name)
    defined = said.get("$defs", {})
    return {one["if"]["properties"]["kind"]["const"]: Shape(one["then"], defined) for one in said["allOf"]}


@functools.cache
def shape(name: str) -> Shape:
    """Return the shape of what a whole schema is about, as `verdict`."""
    said = schema(name)
    return Shape(said, said.get("$defs", {}))


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return ascii(value) if len(ascii(value)) <= 40 else ascii(value)[:37] + "..."


def _fits(said: Mapping[str, Any], defined: Mapping[str, Any]) -> Fits:
    """Return what says whether a value is as a schema says."""
    if "$ref" in said:
        # Looked up when it is needed: what is defined may hold itself.
        found = functools.cache(lambda: _fits(defined[said["$ref"].rpartition("/")[2]], defined))
        return lambda value: found()(value)
    if "anyOf" in said:
        ways = [_fits(one, defined) for one in said["anyOf"]]
        return lambda value: any(way(value) for way in ways)
    if "const" in said or "enum" in said:
        allowed = said["enum"] if "enum" in said else [said["const"]]
        if all(isinstance(one, str) for one in allowed):
            words = frozenset(allowed)
            return lambda value: type(value) is str and value in words
        return lambda value: any(type(one) is type(value) and one == value for one in allowed)
    rules = [*_of_numbers(said), *_of_lists(said, defined), *_of_objects(said, defined)]
    named = said.get("type", [])
    kinds = frozenset(kind for one in ([named] if isinstance(named, str) else named) for kind in _TYPES[one])
    if not kinds:
        return lambda value: all(rule(value) for rule in rules)
    if not rules:
        return lambda value: type(value) in kinds
    if len(rules) == 1:
        # Most fields have one rule, and a generator for it takes longer than the rule.
        (rule,) = rules
        return lambda value: type(value) in kinds and rule(value)
    return lambda value: type(value) in kinds and all(rule(value) for rule in rules)


def _of_numbers(said: Mapping[str, Any]) -> list[Fits]:
    rules: list[Fits] = []
    if "minimum" in said:
        least = said["minimum"]
        rules.append(lambda value: type(value) not in (int, float) or value >= least)
    if "maximum" in said:
        most = said["maximum"]
        rules.append(lambda value: type(value) not in (int, float) or value <= most)
    return rules


def _of_lists(said: Mapping[str, Any], defined: Mapping[str, Any]) -> list[Fits]:
    rules: list[Fits] = []
    if "items" in said:
        item = _fits(said["items"], defined)
        rules.append(lambda value: type(value) is not list or all(map(item, value)))
    if "minItems" in said:
        least, most = said["minItems"], said.get("maxItems", float("inf"))
        rules.append(lambda value: type(value) is not list or least <= len(value) <= most)
    return rules


def _of_objects(said: Mapping[str, Any], defined: Mapping[str, Any]) -> list[Fits]:
    rules: list[Fits] = []
    if "properties" in said:
        inner = Shape(said, defined)
        rules.append(lambda value: type(value) is not dict or not inner.wrong(value))
    others = said.get("additionalProperties")
    if isinstance(others, Mapping):
        other = _fits(others, defined)
        rules.append(lambda value: type(value) is not dict or all(map(other, value.values())))
    return rules
