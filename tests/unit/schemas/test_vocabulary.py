"""The vocabulary of events: the files generated from it are in the tree, and each written event is declared."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from breakrank.schemas import generate
from breakrank.schemas.vocabulary import Kind, conductor_kinds, kind_of, parts_of, rank_kinds
from breakrank_agent.protocol.events import base
from breakrank_agent.protocol.trigger import POINTS

HARNESS = Path(__file__).parents[3] / "harness"
DECLARED = {"breakrank_agent": {k.name: k for k in rank_kinds()}, "breakrank": {k.name: k for k in conductor_kinds()}}
#: The functions that write an event, and the argument of each that is the event's kind.
WRITERS = {"record": 0, "record_text": 0, "_append": 0, "event_text": 0, "write": 0, "_write": 0, "record_of": 1}
GENERATED = generate.files()


class Written(NamedTuple):
    """A place where an event is written: its kind, and the fields that are named there."""

    where: str
    kind: str
    fields: tuple[str, ...]


def written(package: str) -> Iterator[Written]:
    for path in sorted((HARNESS / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                at = WRITERS.get(name)
                for kind in kinds_of(tree, node.args[at]) if at is not None and len(node.args) > at else ():
                    fields = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
                    yield Written(f"{path.relative_to(HARNESS)}:{node.lineno}", kind, fields)
            elif isinstance(node, ast.Dict):
                items = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)}
                if {"kind", "t"} <= items.keys() and isinstance(items["kind"], ast.Constant):
                    yield Written(f"{path.relative_to(HARNESS)}:{node.lineno}", items["kind"].value, tuple(items))


def kinds_of(tree: ast.Module, argument: ast.expr) -> Iterator[str]:
    """Yield the kinds that an argument may be: a function's own argument is looked up at the calls of the function."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value.isidentifier():
        yield argument.value
    for function in ast.walk(tree) if isinstance(argument, ast.Name) and argument.id == "kind" else ():
        names = [one.arg for one in function.args.args] if isinstance(function, ast.FunctionDef) else []
        for call in ast.walk(tree) if "kind" in names and argument in ast.walk(function) else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == function.name:
                yield from kinds_of(tree, call.args[names.index("kind")])


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_what_is_generated_is_in_the_tree_as_make_schemas_writes_it(path):
    assert path.read_text() == GENERATED[path], "run make schemas"


@pytest.mark.parametrize("package", DECLARED)
def test_each_kind_and_field_that_is_written_is_declared(package):
    declared = DECLARED[package]
    for one in written(package):
        assert one.kind in declared, f"{one.where} writes an event {one.kind!r}"
        fields = {"kind", *(field.name for field in declared[one.kind].fields)}
        assert set(one.fields) <= fields, f"{one.where} writes {sorted(set(one.fields) - fields)} in {one.kind!r}"


@pytest.mark.parametrize("package", DECLARED)
def test_each_kind_that_is_declared_is_written(package):
    assert DECLARED[package].keys() <= {one.kind for one in written(package)}


@pytest.mark.parametrize("kind", [*rank_kinds(), *conductor_kinds()], ids=lambda kind: kind.type.__name__)
def test_each_field_says_what_it_is_and_when_it_is_absent(kind: Kind):
    assert re.fullmatch(r"[a-z_]+", kind.name), "an event's kind has no blanks"
    assert kind.text.endswith(".")
    for field in (field for part in (kind, *map(kind_of, parts_of(kind))) for field in part.fields):
        assert field.text.endswith("."), f"{kind.name}.{field.name} has no text"
        assert not field.optional or "bsent" in field.text, field


def test_the_points_are_those_of_a_trigger():
    assert typing.get_args(base.PointName) == POINTS
