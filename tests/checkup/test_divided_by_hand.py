"""Models that are divided by hand in sound ways: no law objects to their losses, norms and sums."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.plans import plan_of

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.request import Request
from breakrank.verdict import Outcome

PAIRS = Path(__file__).parent / "pairs"
SOUND = (
    "dropout_of_its_own",
    "samples_of_its_own",
    "penalty_of_its_own",
    "clips_and_logs",
    "averages_statistics",
)


@pytest.mark.parametrize("program", SOUND)
def test_a_model_that_is_divided_by_hand_is_left_alone(bench, program):
    plan = plan_of(f"divided_by_hand:{program}", steps=0, oracles=(*DEFAULT_ORACLES, "collectives"))
    verdict = bench.run(Request(replace(plan, evidence=("contents",)), programs=PAIRS)).verdict
    assert (verdict.outcome, verdict.findings, verdict.also) == (Outcome.SURVIVED, (), ()), verdict.sentence()
