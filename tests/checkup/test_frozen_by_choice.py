"""Parameters that are frozen on purpose: no law objects to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plans import plan_of

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.request import Request
from breakrank.verdict import Outcome

PAIRS = Path(__file__).parent / "pairs"
SOUND = (
    "in_turn",
    "one_by_one",
    "by_schedule",
    "in_eval_mode",
    "by_a_loop_of_its_own",
    "taught_by_a_copy",
)


@pytest.mark.parametrize("program", SOUND)
def test_a_training_that_freezes_on_purpose_is_left_alone(bench, program):
    plan = plan_of(f"frozen_by_choice:{program}", steps=0, oracles=(*DEFAULT_ORACLES, "collectives"))
    verdict = bench.run(Request(plan, programs=PAIRS)).verdict
    assert (verdict.outcome, verdict.findings, verdict.also) == (Outcome.SURVIVED, (), ()), verdict.sentence()
    assert not verdict.notes
