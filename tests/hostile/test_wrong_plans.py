"""A plan with a wrong value is refused in one line, by the reader and by the published schema alike."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from support.plans import plan_of

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder
from breakrank.runs.saved_run import load_plan
from breakrank.schemas import schema
from breakrank_agent import faults
from breakrank_agent.faults import all_faults, fault_from_json
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.annotated import Unfit, check_fields
from breakrank_agent.protocol.trigger import PlanError, at

SOUND = plan_of(
    "small:train", faults.FlipBit() @ at(rank=1, step=2), environment={"A": "1"}, controlled="random"
).to_json()

#: The place of a wrong value in a plan, and the value.
WRONG: list[tuple[tuple[Any, ...], Any]] = [
    *((("ranks",), value) for value in ("2", True, -1, 0, 1.5, None, 10**9, [2])),
    *((("steps",), value) for value in (-1, "5", True, 2**70)),
    *((("deadline_s",), value) for value in (-1, 0, "30", None, True)),
    *((("patience_s",), value) for value in (-0.5, "0")),
    *((("tolerance",), value) for value in (-1, "0", None)),
    *((("seed",), value) for value in (None, "0", 0.5, 10**30)),
    *((("restarts",), value) for value in (-1, 10**6, "1")),
    *((("merged",), value) for value in (0, -1, "1")),
    *((("until",), value) for value in (-1, "3", None)),
    *((("runner",), value) for value in ("../ssh", "", None, 1)),
    *((("framework",), value) for value in (7, "os.system", "../torch", "")),
    *((("oracles",), value) for value in ("ends", [7], ["../ends"], None, {"ends": 1})),
    *((("pin",), value) for value in (1, "true", None)),
    *((("digests",), value) for value in (0, "no")),
    *((("closely",), value) for value in (0, [1], [1, "no"])),
    *((("apart",), value) for value in ("head.*", [7], None)),
    *((("elastic",), value) for value in (0, None)),
    *((("environment",), value) for value in ([], {"A": 1}, {"A": None}, {"": "x"}, {"A=B": "x"}, {"A": "x\0y"})),
    *((("command",), value) for value in ("train.py", [1], ["train.py\0"], None)),
    *((("resume",), value) for value in ("train.py", [None])),
    *((("reference",), value) for value in ("train.py", [None])),
    *((("control",), value) for value in ("/etc/passwd", "../x:main", 7, "control.py")),
    *((("program",), value) for value in ("/bin/sh", "x", "a:b c", "", 7)),
    *((("step",), value) for value in ("/x:y", "step", 3)),
    *((("data",), value) for value in ("../digits", 7, "a b")),
    *((("image",), value) for value in (7, "a image", "x\x1b[2J")),
    *((("scenario",), value) for value in ("../../x", "a/b", "", ".hidden", 7, "x\x1b[2J", "x" * 300)),
    *((("case",), value) for value in ("../x", "", None, "a\nb")),
    *((("version",), value) for value in (0, 1, 2, "4", True, None, 3, 5)),
    *((("schedule",), value) for value in ([], None, {})),
    *((("schedule", "mode"), value) for value in ("fast", None)),
    *((("schedule", "policy"), value) for value in ("", "../random", 3)),
    *((("schedule", "split"), value) for value in (1, "yes")),
    *((("schedule", "depth"), value) for value in (0, "3")),
    *((("schedule", "choices"), value) for value in (["x"], [-1], [True], "0101")),
    *((("schedule", "threads"), value) for value in ([0], [["x"]], [[-1]], {})),
    *((("strikes",), value) for value in ({}, "kill", [1], None, [[]])),
    *((("strikes", 0, "ranks"), value) for value in ("1", [-1], ["1"], [10**6], None)),
    *((("strikes", 0, "trigger", "visit"), value) for value in ("x", 0, 1.5, None)),
    *((("strikes", 0, "trigger", "step"), value) for value in ("x", -1, True)),
    *((("strikes", 0, "trigger", "point"), value) for value in ("lunch", None)),
    *((("strikes", 0, "trigger", "attempt"), value) for value in (-1, "0")),
    *((("strikes", 0, "trigger", "rank"), value) for value in ("middle", "all-but:x", None, 1.5, [0])),
    *((("strikes", 0, "fault"), value) for value in (None, [], {}, "kill")),
    *((("strikes", 0, "fault", "name"), value) for value in (None, 7)),
]
#: Wrong values that only the reader knows as such: the schema names no registry, and no field of a fault.
BEYOND_THE_SCHEMA: list[tuple[tuple[Any, ...], Any]] = [
    *((("deadline_s",), value) for value in (float("nan"), float("inf"))),
    (("steps",), 1e9),  # a float is no whole number, which JSON Schema does not tell apart
    (("tolerance",), float("nan")),
    (("oracles",), ["nope"]),
    (("data",), "nope"),
    (("runner",), "ssh"),
    (("schedule", "policy"), "nope"),
    (("strikes", 0, "fault", "name"), "gremlin"),
    *((("strikes", 0, "fault", "bit"), value) for value in ("22", None, True, 1.5, [22], 2**70)),
    (("strikes", 0, "fault", "color"), "red"),
]


def spoilt(path, value):
    raw = copy.deepcopy(SOUND)
    place = raw
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return raw


def refusal(tmp_path, raw):
    """Return the line with which the reader refuses a plan."""
    (tmp_path / "plan.json").write_text(json.dumps(raw))
    with pytest.raises(BreakrankError) as caught:
        load_plan(Folder(tmp_path))
    return str(caught.value)


def test_the_sound_plan_is_accepted_by_both(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(SOUND))
    jsonschema.Draft202012Validator(schema("plan")).validate(SOUND)
    assert load_plan(Folder(tmp_path)).to_json() == Plan.from_json(SOUND).to_json()


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda part: ascii(part)[:40])
def test_a_wrong_value_is_refused_by_the_reader_and_by_the_schema(tmp_path, path, value):
    raw = spoilt(path, value)
    line = refusal(tmp_path, raw)
    assert "\n" not in line and len(line) < 1000
    assert not jsonschema.Draft202012Validator(schema("plan")).is_valid(raw)


@pytest.mark.parametrize(("path", "value"), BEYOND_THE_SCHEMA, ids=lambda part: ascii(part)[:40])
def test_a_wrong_value_that_no_schema_shows_is_refused_by_the_reader(tmp_path, path, value):
    assert "\n" not in refusal(tmp_path, spoilt(path, value))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("ranks",), "2", "the plan: ranks is '2', not a whole number"),
        (("runner",), "ssh", "there is no runner 'ssh'; use one of process, hosts, slurm, sandbox, docker, join"),
        (("restarts",), -1, "restarts is -1; use 0 to 1000"),
        (("scenario",), "../../x", "scenario is '../../x'; use a name without a slash"),
        (("strikes", 0, "trigger", "visit"), "x", "the trigger: visit is 'x', not a whole number"),
        (("strikes", 0, "fault", "bit"), "22", "fault 'flip_bit': bit is '22', not a whole number"),
        (("oracles",), ["nope"], "there is no oracle 'nope'; use one of "),
    ],
)
def test_a_refusal_names_the_field_the_value_and_what_is_allowed(tmp_path, path, value, words):
    assert words in refusal(tmp_path, spoilt(path, value))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"version":' * 100_000, "9" * 100_000, '{"version": ' + "9" * 5000 + "}"]
)
def test_a_plan_that_is_deep_or_has_a_huge_number_is_refused(text):
    with pytest.raises(PlanError, match=r"^plan\.json: "):
        Plan.loads(text, "plan.json")


@pytest.mark.parametrize("name", all_faults())
def test_each_field_of_each_fault_is_checked(name):
    """None of these values fits any field of any fault."""
    for field in all_faults()[name]().to_json():
        if field != "name":
            with pytest.raises(PlanError, match=field):
                fault_from_json({"name": name, field: {"deep": [[]]}})


def test_a_field_keeps_what_its_annotation_takes():
    sound = check_fields(Plan, {"ranks": 3, "oracles": ["ends"], "deadline_s": 1, "pin": False}, "the plan")
    assert sound == {"ranks": 3, "oracles": ("ends",), "deadline_s": 1, "pin": False}
    with pytest.raises(Unfit, match="the plan: pin is 1, not true or false"):
        check_fields(Plan, {"pin": 1}, "the plan")
