"""Cold ranks give every scenario the verdict and the digest that warm ones give."""

from __future__ import annotations

import pytest

from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request

pytestmark = pytest.mark.soak

CASES = [(scenario, case) for scenario in load_scenarios().values() for case in scenario.cases]


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("cold"), cold=True) as made:
        yield made


@pytest.mark.parametrize("program", ["says_its_own_steps", "accumulates"])
def test_a_cold_rank_gives_the_digest_of_a_warm_one(run, cold, program):
    terms = {"oracles": ("ends",), "deadline_s": 120.0}
    (warm, _), (other, _) = (run(f"small:{program}", **on, **terms) for on in ({}, {"on": cold}))
    assert (warm.verdict.outcome, warm.verdict.digest) == (other.verdict.outcome, other.verdict.digest)


@pytest.mark.parametrize(("scenario", "case"), CASES, ids=[f"{s.name}::{c.name}" for s, c in CASES])
def test_a_cold_run_is_judged_as_a_warm_one(bench, cold, scenario, case):
    plan = make_plan(scenario, case, Choices())
    warm, other = bench.run(Request(plan, case.expect)), cold.run(Request(plan, case.expect))
    assert (other.verdict.outcome, other.verdict.digest) == (warm.verdict.outcome, warm.verdict.digest)
    assert other.as_recorded
