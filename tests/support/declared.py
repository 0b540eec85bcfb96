"""A bench whose runs are checked: each event that they leave behind is one of the vocabulary, with no field more.

The types of the fields are checked at each reading of a run: an event that breaks its schema makes the run VOID.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from breakrank.runs.bench import Bench, Result
from breakrank.schemas import schema
from breakrank_agent.agent.agent import FAILED


class StrictBench(Bench):
    """A bench that looks for undeclared events in each run that it makes."""

    def run(self, *args: Any, **kwargs: Any) -> Result:
        """Make a run, and check it."""
        result = super().run(*args, **kwargs)
        assert_declared(result.folder)
        return result

    def record(self, *args: Any, **kwargs: Any) -> tuple[Path, list[str]]:
        """Make a run that nobody judges yet, and check it."""
        folder, void = super().record(*args, **kwargs)
        assert_declared(folder)
        return folder, void


def assert_declared(folder: Path) -> None:
    """Assert that all events of a run directory are declared. Of a damaged file nothing is expected."""
    files = list(folder.rglob("*.jsonl"))
    conductors = [path for path in files if path.name == "conductor.jsonl"]
    damaged = any('"kind":"damaged"' in path.read_text() for path in conductors)
    for path in () if damaged else files:
        name = "conductor" if path in conductors else "event"
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                event = json.loads(line)
                assert not str(event.get("text", "")).startswith(FAILED), event["text"]
                more = list(undeclared(kinds(name)[event["kind"]], event, name))
                assert not more, f"{path} has an event with {more}, which nothing declares: {line[:300]}"


@functools.cache
def kinds(name: str) -> Mapping[str, Any]:
    """Return the schemas of the kinds of events, by kind."""
    return {one["if"]["properties"]["kind"]["const"]: one["then"] for one in schema(name)["allOf"]}


@functools.cache
def parts(name: str) -> Mapping[str, Any]:
    """Return the schemas of the objects in events, by their reference."""
    return {f"#/$defs/{part}": said for part, said in schema(name).get("$defs", {}).items()}


def undeclared(said: Mapping[str, Any], value: Any, name: str) -> Iterator[str]:
    """Yield the fields of a value, and of all that it holds, that its schema does not name."""
    said = parts(name)[said["$ref"]] if "$ref" in said else said
    if isinstance(value, list) and "items" in said:
        for item in value:
            yield from undeclared(said["items"], item, name)
    for field, held in value.items() if isinstance(value, dict) and "properties" in said else ():
        if field in said["properties"]:
            yield from undeclared(said["properties"][field], held, name)
        else:
            yield field
