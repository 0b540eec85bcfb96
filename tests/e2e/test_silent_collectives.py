"""Every way in which a rank's collective does not match: the oracle names the collective and the cause.

Method: tests/programs/mismatches.py, two ranks that train for real; rank 1 is odd at step 2. The control of each row is
its sound twin. Gloo's behaviour was measured first; the outcomes here are the measured ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from support.plans import PROGRAMS

from breakrank.oracles import Terms
from breakrank.oracles.collectives import judge
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.scenario import Case, Job, Scenario
from breakrank.runs.request import Request
from breakrank.verdict import DETECTED, Outcome, detected, silent

DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
SHORT = {"GROUP_TIMEOUT_S": "2"}

SILENT, CRASHED, HUNG = Outcome.SILENT, Outcome.CRASHED, Outcome.HUNG


class Row(NamedTuple):
    """The expected result of a row: the outcome, the first wrong operation with its number, and its cause."""

    outcome: Outcome
    op: str
    number: int
    cause: str


MESSAGE = "the message from rank 0 to rank 1, number"
#: Each step has the row's collectives and the gradients' all-reduce; messages are counted by themselves.
ROWS = {
    "all_reduce_larger": Row(CRASHED, "all_reduce", 3, "shape mismatch"),
    "all_reduce_smaller": Row(CRASHED, "all_reduce", 3, "shape mismatch"),
    "all_reduce_one_more": Row(CRASHED, "all_reduce", 3, "shape mismatch"),
    "all_reduce_transposed": Row(SILENT, "all_reduce", 3, "shape mismatch"),
    "all_reduce_int_for_float": Row(SILENT, "all_reduce", 3, "dtype mismatch"),
    "all_reduce_bfloat_for_half": Row(SILENT, "all_reduce", 3, "dtype mismatch"),
    "all_reduce_double_for_float": Row(CRASHED, "all_reduce", 3, "dtype mismatch"),
    "all_reduce_max_for_sum": Row(SILENT, "all_reduce", 3, "reduce op mismatch"),
    "all_reduce_another_layout": Row(SILENT, "all_reduce", 3, "layout mismatch"),
    "swapped_equal": Row(SILENT, "all_reduce", 4, "order mismatch"),
    "swapped_different_shapes": Row(CRASHED, "all_reduce", 4, "calls misaligned"),
    "skipped_one_of_three_equal": Row(SILENT, "all_reduce", 6, "collective skipped"),
    "skipped_until_shapes_differ": Row(CRASHED, "all_reduce", 7, "collective skipped"),
    "broadcast_larger": Row(SILENT, "broadcast", 3, "shape mismatch"),
    "broadcast_smaller": Row(CRASHED, "broadcast", 3, "shape mismatch"),
    "broadcast_int_for_float": Row(SILENT, "broadcast", 3, "dtype mismatch"),
    "broadcast_another_source": Row(HUNG, "broadcast", 3, "root mismatch"),
    "all_gather_larger": Row(CRASHED, "all_gather", 3, "shape mismatch"),
    "all_gather_into_tensor_larger": Row(CRASHED, "all_gather_into_tensor", 3, "shape mismatch"),
    "all_gather_int_for_float": Row(SILENT, "all_gather", 3, "dtype mismatch"),
    "reduce_scatter_larger": Row(CRASHED, "reduce_scatter", 3, "shape mismatch"),
    "reduce_scatter_tensor_larger": Row(CRASHED, "reduce_scatter_tensor", 3, "shape mismatch"),
    "reduce_scatter_tensor_int_for_float": Row(SILENT, "reduce_scatter_tensor", 3, "dtype mismatch"),
    "all_to_all_single_larger": Row(CRASHED, "all_to_all_single", 3, "shape mismatch"),
    "reduce_another_destination": Row(HUNG, "reduce", 3, "root mismatch"),
    "gather_larger": Row(CRASHED, "gather", 3, "shape mismatch"),
    "scatter_larger": Row(SILENT, "scatter", 3, "shape mismatch"),
    "scatter_smaller": Row(CRASHED, "scatter", 3, "shape mismatch"),
    "receive_larger": Row(SILENT, MESSAGE, 2, "shape mismatch"),
    "receive_smaller": Row(CRASHED, MESSAGE, 2, "shape mismatch"),
    "receive_int_for_float": Row(SILENT, MESSAGE, 2, "dtype mismatch"),
    "broadcast_for_all_reduce": Row(HUNG, "all_reduce", 3, "collective mismatch"),
    "barrier_for_all_reduce": Row(HUNG, "all_reduce", 3, "collective mismatch"),
    "all_gather_for_all_reduce": Row(HUNG, "all_reduce", 3, "collective mismatch"),
    "reduce_scatter_tensor_for_all_reduce": Row(SILENT, "all_reduce", 3, "collective mismatch"),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_first_wrong_collective_is_named_with_its_cause_and_the_odd_rank(run, name):
    row = ROWS[name]
    oracles = ("collectives", "progress")
    result, saved = run(f"mismatches:{name}", control=f"mismatches:{name}_sound", oracles=oracles, steps=3)
    verdict = result.verdict
    assert verdict.outcome is row.outcome, verdict.sentence()
    first = verdict.findings[0]
    evidence = first.evidence
    assert (first.oracle, first.cause, first.ranks, first.step) == ("collectives", row.cause, (1,), 2)
    assert (evidence["op"], evidence["number"]) == (row.op, row.number)
    assert "unknown" not in first.sentence() and "mismatches.py:" in first.sentence()
    assert verdict.blame.ranks == (1,)
    if row.outcome is HUNG:
        assert "participant missing" in [finding.cause for finding in verdict.findings]
    if row.outcome is CRASHED:
        assert f"in {row.op.replace(MESSAGE, 'recv')} " in verdict.sentence()
    assert [lived.ended_well for lived in saved.control.last] == [True, True]
    assert judge(saved.control, None, Terms(ranks=2, steps=3)) == []


@pytest.mark.parametrize(
    ("row", "environment", "record"),
    [
        ("all_reduce_int_for_float", DETAIL, detected(oracle="collectives", rank=1, step=2, cause="dtype mismatch")),
        ("all_reduce_max_for_sum", DETAIL, silent(oracle="collectives", rank=1, step=2, cause="reduce op mismatch")),
        ("reduce_another_destination", SHORT, detected(oracle="collectives", rank=1, step=2, cause="root mismatch")),
        ("all_reduce_max_for_sum_sound", DETAIL, None),
    ],
)
def test_the_debug_mode_and_the_time_out_are_dimensions_of_a_case(bench, row, environment, record):
    """The framework reports a mismatch if its debug mode sees it, or if its time-out is within the case's patience."""
    sound = row.removesuffix("_sound") + "_sound"
    case = Case(row, f"mismatches:{row}", record or DETECTED, control=f"mismatches:{sound}")
    case = replace(case, environment=environment, patience_s=30.0 if environment is SHORT else None)
    scenario = Scenario([case], job=Job(steps=3, data=""), oracles=("collectives", "progress"), name="dimensions")
    result = bench.run(Request(make_plan(scenario, case, Choices()), case.expect, programs=PROGRAMS))
    if record is None:
        assert (result.verdict.outcome, result.verdict.findings) == (Outcome.SURVIVED, ())
    else:
        assert result.as_recorded, result.verdict.sentence()
        assert result.verdict.blame.ranks == (1,)
