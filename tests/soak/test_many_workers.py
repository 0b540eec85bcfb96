"""Healthy TensorFlow jobs whose last act is a collective: none is called dead, none fails at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent.plan import Plan

pytestmark = pytest.mark.soak
PROGRAMS = Path(__file__).parents[1] / "bench" / "programs"
RUNS = 60


def test_no_healthy_job_is_called_anything_else(tmp_path):
    """Two workers end at once after their last all-reduce: 2 of 40 such jobs failed while nothing held them."""
    plan = Plan("soak", "workers", "reduce_workers:main", framework="tensorflow", oracles=DEFAULT_ORACLES)
    with Bench(tmp_path) as bench:
        verdicts = [bench.run(Request(plan, programs=PROGRAMS)).verdict for _ in range(RUNS)]
    assert [verdict for verdict in verdicts if verdict.outcome is not Outcome.SURVIVED] == []
