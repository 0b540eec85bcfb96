"""A shard of another form: the ranks that report, the rank that is blamed, and a strike without any shards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import SavedRun, load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

SCENARIO = load_scenarios()["mismatched_shards"]
CASES = {case.name: case for case in SCENARIO.cases}


@pytest.fixture
def try_case(bench):
    """Run a case of the scenario; return the result and the saved run."""

    def go(name: str) -> tuple[Result, SavedRun]:
        result = bench.run(Request(make_plan(SCENARIO, CASES[name], Choices())))
        return result, load_run(result.folder)

    return go


@pytest.mark.parametrize("change", ["dtype", "columns"])
def test_ranks_that_compare_their_schemas_all_report_and_the_odd_one_is_blamed(try_case, change):
    result, saved = try_case(f"torch-agreeing-{change}")
    reports = [lived.report for lived in saved.history.last]
    assert [report["type"] for report in reports] == ["ValueError"] * 3
    assert {report["message"] for report in reports} == {
        f"the shard of rank 1 differs from those of the others in: {change}"
    }
    assert result.verdict.blame.ranks == (1,)
    assert all(lived.last_step == 0 for lived in saved.history.last)


def test_what_does_not_fit_the_network_is_blamed_on_its_rank_though_all_report(try_case):
    result, saved = try_case("torch-trusting-width")
    assert all(lived.report for lived in saved.history.last)
    assert result.verdict.blame.ranks == (1,)
    assert "shapes cannot be multiplied" in result.verdict.blame.reason


def test_what_fits_is_silent_and_still_blamed_on_the_rank_that_alone_had_another_batch(try_case):
    result, saved = try_case("torch-trusting-class-order")
    assert [lived.status for lived in saved.history.last] == [0, 0, 0]
    assert [(finding.cause, finding.ranks) for finding in result.verdict.findings[:1]] == [("batch mismatch", (1,))]
    assert result.verdict.blame.ranks == (1,)


@pytest.mark.parametrize("program", ["trusting", "agreeing"])
def test_shards_of_one_form_are_trained_on(bench, program):
    plan = make_plan(SCENARIO, CASES[f"torch-{program}-width"], Choices())
    result = bench.run(Request(replace(plan, strikes=(), control="")))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


def test_where_no_shards_were_laid_the_strike_is_void_and_says_why(run):
    result, saved = run("small:train", faults.ReexportShard() @ at(rank=1, step=0, point="start"))
    assert result.verdict.outcome is Outcome.VOID
    assert "did not land" in result.verdict.sentence() and "manifest.json" in result.verdict.sentence()
    assert [lived.status for lived in saved.history.last] == [0, 0]


LOAD = at(rank=1, step=2, point="load")


@pytest.mark.parametrize("fault", [faults.SwapColumns(), faults.ShiftLabels()])
def test_a_batch_that_still_fits_is_silent_and_its_rank_computes_another_gradient(run, fault):
    result, saved = run("small:train", fault @ LOAD)
    assert result.verdict.outcome is Outcome.SILENT, result.verdict
    assert (result.verdict.findings[0].oracle, result.verdict.findings[0].step) == ("control", 2)
    struck, clean = (side.ranks[0, 1].payloads("load") for side in (saved.history, saved.control))
    changed = [one["step"] for one, other in zip(struck, clean, strict=True) if one["batch"] != other["batch"]]
    assert changed == [2]


def test_a_batch_of_another_dtype_raises_on_its_rank(run):
    result, saved = run("small:train", faults.CastBatch() @ LOAD)
    assert result.verdict.outcome is Outcome.DETECTED, result.verdict
    assert "dtype" in saved.history.ranks[0, 1].report["message"]
    assert result.verdict.blame.ranks == (1,)


def test_two_strikes_on_one_batch_follow_each_other(run):
    # Swapped there and back, the batch is as it was loaded.
    twice = [faults.SwapColumns() @ LOAD, faults.SwapColumns(first=1, second=0) @ LOAD]
    result, saved = run("small:train", *twice)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert len([e for e in saved.history.seen("strike") if e["phase"] == "landed"]) == 2


def test_a_batch_that_a_fault_cannot_change_is_left_alone_and_the_strike_is_void(run):
    result, saved = run("small:train", faults.SwapColumns(part=7) @ LOAD)
    assert result.verdict.outcome is Outcome.VOID
    assert any("cannot change this batch: IndexError" in e["text"] for e in saved.history.ranks[0, 1].of_kind("note"))
    assert [lived.status for lived in saved.history.last] == [0, 0]
