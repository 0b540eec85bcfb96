"""Parameters that are left out of optimizers on purpose: no law objects to that."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plans import plan_of

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.request import Request
from breakrank.verdict import Outcome

PAIRS = Path(__file__).parent / "pairs"
SOUND = (
    "below_the_rest",
    "head_alone",
    "prompt",
    "head_of_an_earlier_training",
    "teacher_with_gradients",
    "average_beside",
    "never_called",
    "rarely_stepped",
    "moved_by_hand",
    "moved_by_hand_at_last",
    "part_in_a_wrapper",
)


@pytest.mark.parametrize("program", SOUND)
def test_a_training_that_leaves_out_on_purpose_is_left_alone(bench, program):
    plan = plan_of(f"left_out_by_choice:{program}", steps=0, oracles=(*DEFAULT_ORACLES, "collectives"))
    verdict = bench.run(Request(plan, programs=PAIRS)).verdict
    assert (verdict.outcome, verdict.findings, verdict.also) == (Outcome.SURVIVED, (), ()), verdict.sentence()
    assert not verdict.notes
