"""Records of TensorFlow's collectives, and the hang that they prove, in real jobs of two workers."""

from __future__ import annotations

import importlib.util
import json

import jsonschema
import pytest

from breakrank.schemas import schema
from breakrank.verdict import Outcome

pytestmark = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="the programs need tensorflow")


def test_collectives_of_every_graph_and_eager_ones_are_on_record_with_their_lines(run):
    result, saved = run("graphs:everywhere", framework="tensorflow", steps=1)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    calls = [lived.points("collective") for lived in saved.history.last]
    assert [[(c["op"], c["c"]) for c in of] for of in calls] == [[(c["op"], c["c"]) for c in calls[0]]] * 2
    assert [c["c"] for c in calls[0]] == list(range(1, len(calls[0]) + 1))
    told = [(c["op"], c.get("shapes"), c.get("said"), c.get("eager")) for c in calls[0]]
    assert told[0] == ("broadcast_", [[3]], None, True)
    reduced = ("allreduce_", [[3]])
    assert told[1:6] == [
        (*reduced, None, None),
        (*reduced, "in a loop", None),
        (*reduced, "in a branch", None),
        (*reduced, None, None),
        ("allreduce_", [[2]], None, True),
    ]
    assert {op for op, *_ in told[6:]} == {"allgather_"}
    assert all(c["site"].startswith("graphs.py:") for c in calls[0]), [c["site"] for c in calls[0]]
    assert len({c["site"] for c in calls[0][1:5]}) == 1, "all of them are called at one line"
    assert all(len(lived.of_kind("done")) == len(of) for lived, of in zip(saved.history.last, calls, strict=True))
    check = jsonschema.Draft202012Validator(schema("event"))
    for path in result.folder.glob("attempt-0/*.jsonl"):
        for line in path.read_text().splitlines():
            check.validate(json.loads(line))


def test_workers_that_wait_under_different_numbers_are_proven_to_wait_for_ever(run):
    result, saved = run("graphs:out_of_step", framework="tensorflow", steps=2, deadline_s=60.0)
    (finding, *_) = result.verdict.findings
    assert (result.verdict.outcome, finding.cause) == (Outcome.HUNG, "participant missing"), result.verdict
    (event,) = saved.history.seen("hung")
    assert {wait["rank"]: wait["c"] for wait in event["waiting"]} == {0: 3, 1: 4}
