"""Run directories keep to the schemas that are published, as a validator of all of JSON Schema reads them.

The runs here leave files of every sort behind. Every other run that a test makes on the shared bench is checked there,
faster: those of the whole catalogue (`support.catalogued`) and of all of `tests/programs`. `support.declared` looks for
events and fields that no schema names, and the reader of a run makes it VOID if an event breaks its schema.
"""

from __future__ import annotations

import dataclasses
import json

import jsonschema
import pytest

from breakrank.doctor import missing
from breakrank.schemas import schema
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.trigger import at

#: The reason if no rank can be killed for its memory here.
NO_GROUPS = missing(["memory cgroup"])


@pytest.mark.parametrize(
    ("program", "strikes", "values"),
    [
        ("small:train", [faults.Kill() @ at(rank=1, step=2, point="collective")], {"restarts": 1}),
        ("small:train", [faults.Stop() @ at(rank=1, step=2)], {}),
        ("small:train", [faults.FlipBit() @ at(rank=1, step=2)], {}),
        ("small:train", [faults.LimitFileSize(size=100) @ at(rank=0, step=2, point="save")], {}),
        pytest.param(
            "small:needs_much_at_its_second_step",
            [faults.LimitGroupMemory(headroom_mb=32) @ at(rank=1, step=2, point="load")],
            {},
            marks=pytest.mark.skipif(bool(NO_GROUPS), reason=NO_GROUPS),
        ),
        ("small:raises", [], {}),
        ("small:collectives", [], {}),
        ("small:crossed_locks", [], {"controlled": "random"}),
        ("files:both_write", [], {"controlled": "random", "control": "files:one_writes"}),
        ("children:racy", [], {"ranks": 1, "steps": 1, "deadline_s": 60.0, "oracles": ("race",)}),
    ],
)
def test_a_run_directory_keeps_to_the_schemas(run, program, strikes, values):
    result, _ = run(program, *strikes, **values)
    checks = {name: jsonschema.Draft202012Validator(schema(name)) for name in ("plan", "event", "conductor", "verdict")}
    checks["plan"].validate(json.loads((result.folder / "plan.json").read_text()))
    checks["verdict"].validate(json.loads((result.folder / "verdict.json").read_text()))
    lines = 0
    for path in result.folder.rglob("*.jsonl"):
        check = checks["conductor" if path.name == "conductor.jsonl" else "event"]
        for line in path.read_text().splitlines():
            check.validate(json.loads(line))
            lines += 1
    assert lines > 20


def test_the_plans_schema_names_the_fields_that_a_plan_has():
    assert set(schema("plan")["properties"]) == {field.name for field in dataclasses.fields(Plan)}
