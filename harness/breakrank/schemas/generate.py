"""Generate two JSON Schemas, the typed accessors of a history, and a page from the vocabulary of events.

The names of the faults are generated, too, for type checkers: the registry finds them when they are asked for.

`make schemas` writes them; a test compares them with what lies in the tree.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from breakrank.schemas import vocabulary
from breakrank.schemas.vocabulary import Field, Kind, kind_of, parts_of
from breakrank_agent.faults import all_faults
from breakrank_agent.protocol.events import base
from breakrank_agent.protocol.events.base import AtLeast, AtMost, OfLength
from breakrank_agent.protocol.fault import Fault

ROOT = Path(__file__).parents[3]
_SCHEMA = "https://json-schema.org/draft/2020-12/schema"
_NAMES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_WORDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}

Schema = dict[str, Any]


def files() -> dict[Path, str]:
    """Return what is generated, by where it lies."""
    ranks, conductor = vocabulary.rank_kinds(), vocabulary.conductor_kinds()
    return {
        ROOT / "harness/breakrank/schemas/event.schema.json": _dumped(
            schema_of(ranks, "one line of attempt-N/rank-R.jsonl: what a rank recorded")
        ),
        ROOT / "harness/breakrank/schemas/conductor.schema.json": _dumped(
            schema_of(conductor, "one line of conductor.jsonl: what the Conductor saw and did")
        ),
        ROOT / "harness/breakrank/history/kinds.py": accessors(ranks, conductor),
        ROOT / "harness/breakrank_agent/faults/__init__.pyi": names_of(all_faults().values()),
        ROOT / "docs/events.md": page(ranks, conductor),
    }


def _dumped(schema: Schema) -> str:
    return json.dumps(schema, indent=1) + "\n"


# --- schemas


def schema_of(kinds: Sequence[Kind], title: str) -> Schema:
    """Return the JSON Schema of the events of some kinds."""
    parts: dict[str, Schema] = {}
    cases = [
        {
            "if": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]},
            "then": _object(kind, parts, {"kind": {"const": kind.name}}),
        }
        for kind in kinds
    ]
    return {
        "$schema": _SCHEMA,
        "title": title,
        "type": "object",
        "properties": {"kind": {"enum": [kind.name for kind in kinds]}},
        "required": ["kind"],
        "allOf": cases,
        **({"$defs": parts} if parts else {}),
    }


def _object(kind: Kind, parts: dict[str, Schema], first: Mapping[str, Schema]) -> Schema:
    fields = {field.name: {**_type(field.type, parts), "description": field.text} for field in kind.fields}
    return {
        "description": kind.text,
        "properties": {**first, **fields},
        "required": sorted([*first, *(field.name for field in kind.fields if not field.optional)]),
        "additionalProperties": False,
    }


def _type(hint: Any, parts: dict[str, Schema]) -> Schema:
    """Return the schema of a type; `parts` takes the schemas of the objects that it holds."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint in _NAMES:
        return {"type": _NAMES[hint]}
    if origin is Annotated:
        return {**_type(arguments[0], parts), **_refined(arguments[1:])}
    if origin is Literal:
        return {"enum": list(arguments)} if len(arguments) > 1 else {"const": arguments[0]}
    if origin is Union:
        return _either([_type(one, parts) for one in arguments])
    if origin is list:
        items = _type(arguments[0], parts)
        return {"type": "array", **({"items": items} if items else {})}
    if origin is dict:
        values = _type(arguments[1], parts)
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    if hint.__name__ not in parts:
        # It may hold itself.
        parts[hint.__name__] = {}
        parts[hint.__name__] = {"type": "object", **_object(kind_of(hint), parts, {})}
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _either(ways: Sequence[Schema]) -> Schema:
    """Return the schema of what is one of several types: of which at most one says more than its name."""
    both: Schema = {"type": [way["type"] for way in ways]}
    for way in ways:
        both.update({name: said for name, said in way.items() if name != "type"})
    return both


def _refined(marks: Sequence[Any]) -> Schema:
    said: Schema = {}
    for mark in marks:
        if isinstance(mark, AtLeast):
            said["minimum"] = mark.least
        elif isinstance(mark, AtMost):
            said["maximum"] = mark.most
        elif isinstance(mark, OfLength):
            said["minItems"] = said["maxItems"] = mark.items
    return said


# --- accessors


def accessors(ranks: Sequence[Kind], conductor: Sequence[Kind]) -> str:
    """Return the module by which a type checker knows the events of a kind."""
    names = sorted({kind.type.__name__ for kind in (*ranks, *conductor)} | {"ConductorLine", "RankLine"}, key=str.lower)
    return "\n".join(
        [
            '"""The events of a history by their kind, with the type of that kind; generated by `make schemas`."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import Any, Literal, overload",
            "",
            "from breakrank_agent.protocol.events import (",
            *(f"    {name}," for name in names),
            ")",
            *_accessor("RankKinds", "of_kind", "events", "RankLine", "Return the events of one kind, in order.", ranks),
            *_accessor(
                *("ConductorKinds", "seen", "conductor", "ConductorLine"),
                "Return the Conductor's events of one kind, in order.",
                conductor,
            ),
            "",
        ]
    )


def _accessor(owner: str, method: str, field: str, line: str, text: str, kinds: Sequence[Kind]) -> Iterator[str]:
    yield from ("", "", f"class {owner}:", f'    """The part of a history that finds events in `{field}`."""', "")
    yield f"    {field}: tuple[{line}, ...]"
    for kind in kinds:
        yield from ("", "    @overload")
        yield f'    def {method}(self, kind: Literal["{kind.name}"]) -> list[{kind.type.__name__}]: ...'
    yield from ("", f"    def {method}(self, kind: str) -> list[Any]:", f'        """{text}"""')
    yield f'        return [e for e in self.{field} if e["kind"] == kind]'


# --- faults


def names_of(faults: Iterable[type[Fault]]) -> str:
    """Return the stub by which a type checker knows the faults: their constructors, and that there are no others."""
    places = sorted(
        ((fault.__module__, fault.__name__) for fault in faults), key=lambda place: (place[0], place[1].lower())
    )
    return "\n".join(
        [
            '"""The faults by their names, for type checkers; generated by `make schemas`."""',
            "",
            "from collections.abc import Mapping",
            "from typing import Any",
            "",
            *(f"from {module} import {name} as {name}" for module, name in places),
            "from breakrank_agent.protocol.fault import Fault",
            "",
            "def all_faults() -> Mapping[str, type[Fault]]: ...",
            "def fault_from_json(raw: Any) -> Fault: ...",
            "",
        ]
    )


# --- the page

_INTRODUCTION = """# Events

A run directory holds what happened as JSON lines: `attempt-N/rank-R.jsonl` is what rank R recorded in attempt N, and
`conductor.jsonl` what the Conductor saw and did. Beside them, `rank-R.out` and `rank-R.err` hold the rank's output, and
`rank-R.out.times` and `rank-R.err.times` the times at which its lines were read from the pipe: each line is
`[offset, time]`, for the lines that begin at that byte or later. Times are seconds of the monotonic clock.

This page is generated from
[breakrank_agent/protocol/events](../harness/breakrank_agent/protocol/events) by `make schemas`, and so are the JSON
Schemas in [breakrank/schemas](../harness/breakrank/schemas). A field with a question mark may be absent.
"""


def page(ranks: Sequence[Kind], conductor: Sequence[Kind]) -> str:
    """Return the reference page."""
    sections = (
        ("Events of a rank", ranks, kind_of(base.RankEventBase)),
        ("Events of the Conductor", conductor, kind_of(base.ConductorEventBase)),
    )
    lines = [_INTRODUCTION]
    for title, kinds, common in sections:
        lines += [f"## {title}", "", *_table(("kind", "meaning"), [(f"`{one.name}`", one.text) for one in kinds]), ""]
        lines += [f"{common.text} They are not repeated below.", "", *_fields(common.fields), ""]
        for kind in kinds:
            own = [field for field in kind.fields if field not in common.fields]
            lines += [f"### {kind.name}", "", kind.text, "", *_fields(own), ""]
    parts = {part.__name__: part for kind in (*ranks, *conductor) for part in parts_of(kind)}
    lines += ["## Objects in events", ""]
    for part in map(kind_of, parts.values()):
        lines += [f"### {part.type.__name__}", "", part.text, "", *_fields(part.fields), ""]
    return "\n".join(lines).rstrip() + "\n"


def _fields(fields: Sequence[Field]) -> list[str]:
    rows = [(f"`{f.name}`{'?' if f.optional else ''}", _words(f.type), f.text) for f in fields]
    return _table(("field", "type", "meaning"), rows)


def _table(head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a table of Markdown."""
    cells = [tuple(head), tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]


def _words(hint: Any) -> str:
    """Say a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return "any"
    if hint in _NAMES:
        return _WORDS[_NAMES[hint]]
    if origin is Annotated:
        return " ".join([_words(arguments[0]), *filter(None, map(_mark_words, arguments[1:]))])
    if origin is Literal:
        return " or ".join(f"`{json.dumps(one) if isinstance(one, bool) else one}`" for one in arguments)
    if origin is Union:
        return " or ".join(map(_words, arguments))
    if origin is list:
        return f"list of {_words(arguments[0])}"
    if origin is dict:
        return "object" if arguments[1] is Any else f"object of {_words(arguments[1])}"
    return f"[{hint.__name__}](#{hint.__name__.lower()})"


def _mark_words(mark: Any) -> str:
    if isinstance(mark, AtLeast):
        return f"≥ {mark.least}"
    if isinstance(mark, AtMost):
        return f"≤ {mark.most}"
    return f"({mark.items} of them)" if isinstance(mark, OfLength) else ""
