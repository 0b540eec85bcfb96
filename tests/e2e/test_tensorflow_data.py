"""Records of the batches and variables of TensorFlow's programs, in real runs, and strikes on batches."""

from __future__ import annotations

import json

import jsonschema
import pytest
from support.plans import plan_of

from breakrank.doctor import missing_framework
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.schemas import schema
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

LACK = missing_framework("tensorflow")
pytestmark = pytest.mark.skipif(bool(LACK), reason=LACK)


@pytest.fixture
def run_ours(bench):
    """Run one of our programs for three steps; return the result and the saved run."""

    def go(program, *strikes, **values):
        values = {"framework": "tensorflow", "data": "digits", "steps": 3, "deadline_s": 30.0, **values}
        result = bench.run(Request(plan_of(program, *strikes, **values)))
        return result, load_run(result.folder)

    return go


@pytest.mark.parametrize(
    ("program", "values"),
    [
        ("mirrored_workers:reducing", {}),
        ("mirrored:unaggregated", {"ranks": 1}),
        ("restoring:without_the_optimizer", {"ranks": 1}),
    ],
)
def test_a_run_directory_keeps_to_the_schemas(run_ours, program, values):
    result, _ = run_ours(program, **values)
    check = jsonschema.Draft202012Validator(schema("event"))
    for path in result.folder.rglob("rank-*.jsonl"):
        for line in path.read_text().splitlines():
            check.validate(json.loads(line))


def test_a_strike_on_a_workers_batch_lands_and_is_laid_at_that_rank_and_step(run_ours):
    result, saved = run_ours("mirrored_workers:reducing", faults.SwapColumns(2, 3) @ at(rank=1, step=2, point="load"))
    assert [e["strike"] for e in saved.history.seen("strike") if e["phase"] == "landed"] == [0]
    first = result.verdict.findings[0]
    assert result.verdict.outcome is Outcome.SILENT
    assert (first.cause, first.ranks, first.step) == ("samples changed", (1,), 2)


def test_a_strike_on_a_batch_of_several_replicas_strikes_the_first_alone(run_ours):
    strike = faults.SwapColumns(2, 3) @ at(rank=0, step=2, point="load")
    result, saved = run_ours("mirrored:aggregating", strike, ranks=1)
    assert result.verdict.findings[0].cause == "samples changed"
    struck, clean = (side.ranks[0, 0].payloads("load")[1]["samples"] for side in (saved.history, saved.control))
    half = len(clean) // 2
    assert struck[half:] == clean[half:] and struck[:half] != clean[:half]


def test_batches_that_stay_in_a_graph_are_said_not_to_be_seen(run_ours):
    _, saved = run_ours("fitted:alone", ranks=1)
    (lived,) = saved.history.last
    assert lived.last_step == 3
    assert not lived.payloads("load")
    assert any("not seen" in event["text"] for event in lived.of_kind("note"))
