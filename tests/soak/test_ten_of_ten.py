"""Each case runs ten times with isolated ranks: it ends alike each time, and a clean job runs after it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support import containers
from support.catalogued import CASES, SCENARIOS, names

from breakrank.doctor import missing, missing_for, missing_framework
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices, make_plan
from breakrank.runners.docker import part
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BREAKRANK_SOAK_RUNS", "10"))
IMAGES = {"torch": containers.TORCH, "tensorflow": containers.TENSORFLOW}
BASELINE = SCENARIOS["baseline"]
CLEAN = {case.framework: case for case in BASELINE.cases if case.name in ("torch-ddp", "tf-workers")}


def choices(runner: str, framework: str) -> Choices:
    """Return the choices for a runner and a framework; skip if this machine cannot have them."""
    if runner == "docker":
        return Choices(runner=runner, image=containers.require(IMAGES[framework]))
    if lack := missing_framework(framework):
        pytest.skip(lack)
    if lack := missing(["netns"]):
        pytest.skip(lack)
    return Choices(runner=runner)


@pytest.mark.parametrize("runner", ["sandbox", "docker"])
@pytest.mark.parametrize(("scenario", "case"), CASES, ids=names(CASES))
def test_it_ends_alike_each_time_and_a_clean_job_runs_where_it_ran(bench, scenario, case, runner):
    chosen = choices(runner, case.framework)
    try:
        plan = make_plan(scenario, case, chosen)
    except BreakrankError as error:
        pytest.skip(str(error))
    lack = missing_for(plan, case.needs)
    if lack:
        pytest.skip(lack)
    ended, pythons = set(), set()
    for _ in range(RUNS):
        result = bench.run(Request(plan, case.record(runner, plan.ranks)))
        assert result.as_recorded, f"{result.verdict.outcome}: {result.verdict.sentence()} ({result.folder})"
        history = load_run(result.folder).history
        assert not [e for e in history.seen("strike") if e["phase"] == "unhealed"]
        pythons |= {lived.events[0]["python"] for lived in history.last if lived.events}
        ended.add((result.verdict.outcome, result.verdict.digest))
    assert len(ended) == 1, ended
    if runner == "docker":
        assert pythons <= {part("image").versions(plan.image)["python"]}, "the ranks' Python is the image's own"
    clean = make_plan(BASELINE, CLEAN[case.framework], chosen)
    if plan.ranks > clean.ranks:
        # TensorFlow's programs have a goal for two workers: more workers miss it, however many steps they make.
        left_out = "progress" if case.framework == "tensorflow" else ""
        oracles = tuple(name for name in clean.oracles if name != left_out)
        clean = replace(clean, ranks=plan.ranks, oracles=oracles)
    after = bench.run(Request(clean)).verdict
    assert after.outcome is Outcome.SURVIVED, after.sentence()
