"""Records of replicas whose gradients go into no update, in real runs of TensorFlow."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from breakrank.doctor import missing_framework
from breakrank.schemas import schema
from breakrank_agent.hooks.tensorflow.training import EAGERLY

LACK = missing_framework("tensorflow")
pytestmark = pytest.mark.skipif(bool(LACK), reason=LACK)

VALUES = {"framework": "tensorflow", "ranks": 1, "deadline_s": 30.0}
#: In graphs, and operation by operation.
WAYS = pytest.mark.parametrize("eagerly", ["0", "1"], ids=["graph", "eager"])


def values(eagerly: str, ranks: int = 1) -> dict[str, Any]:
    """Return the values of a plan beside its program."""
    return {**VALUES, "ranks": ranks, "environment": {EAGERLY: eagerly}}


@WAYS
@pytest.mark.parametrize(
    ("program", "steps"), [("sound", 6), ("sound_by_keras", 1), ("in_a_branch", 2), ("of_some_rows", 1)]
)
def test_of_gradients_that_go_into_the_update_nothing_is_on_record(run, program, steps, eagerly):
    result, saved = run(f"updates:{program}", **values(eagerly))
    (lived,) = saved.history.last
    assert lived.ended_well and lived.last_step == steps, result.verdict.sentence()
    assert lived.of_kind("lack") == []


@pytest.mark.parametrize(
    ("program", "steps", "eagerly", "ranks"),
    [
        ("through_numpy", 1, "1", 1),
        ("applied_in_a_function", 2, "0", 1),
        ("two_in_turn", 1, "1", 1),
        ("by_two_workers", 1, "1", 2),
    ],
)
def test_nor_is_it_where_that_is_not_seen_or_comes_in_parts(run, program, steps, eagerly, ranks):
    result, saved = run(f"updates:{program}", **values(eagerly, ranks))
    assert all(lived.ended_well for lived in saved.history.last), result.verdict.sentence()
    assert [(lived.last_step, lived.of_kind("lack")) for lived in saved.history.last] == [(steps, [])] * ranks


@WAYS
@pytest.mark.parametrize(
    ("program", "replicas", "kept"),
    [("zeros_in_place", [1], False), ("one_step_old", [0, 1], True)],
)
def test_replicas_whose_gradients_go_into_no_update_are_on_record_with_the_line(run, program, replicas, kept, eagerly):
    result, saved = run(f"updates:{program}", **values(eagerly))
    (lived,) = saved.history.last
    (event,) = lived.of_kind("lack")
    assert (event["replicas"], event["of"], event["kept"], event["parts"]) == (replicas, 2, kept, [0])
    assert event["site"].startswith("updates.py:"), event["site"]
    check = jsonschema.Draft202012Validator(schema("event"))
    for line in (result.folder / "attempt-0" / "rank-0.jsonl").read_text().splitlines():
        check.validate(json.loads(line))


@WAYS
def test_the_worker_whose_gradients_go_into_no_update_has_it_on_record(run, eagerly):
    _, saved = run("updates:nothing_from_one_worker", **values(eagerly, ranks=2))
    lacks = [[event["replicas"] for event in lived.of_kind("lack")] for lived in saved.history.last]
    assert lacks == [[], [[1]]]
