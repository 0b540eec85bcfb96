"""Each case of torch that strikes the machine, ten times behind walls: it ends alike, and a clean job runs after it."""

from __future__ import annotations

import os

import containers
import pytest
from catalogued import CASES, names
from plans import PROGRAMS, plan_of

from breakrank.doctor import missing, missing_for
from breakrank.errors import BreakrankError
from breakrank.run import Choices, load_run, make_plan
from breakrank.verdict import Outcome

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BREAKRANK_SOAK_RUNS", "10"))
FAMILIES = ("network", "storage", "process", "memory", "environment")
STRUCK = [(s, c) for s, c in CASES if s.family in FAMILIES and c.framework == "torch"]


def choices(runner: str) -> Choices:
    """Return what is chosen for a runner. Skips where this machine cannot have it."""
    if runner == "docker":
        return Choices(runner=runner, image=containers.require(containers.TORCH))
    if lack := missing(["netns"]):
        pytest.skip(lack)
    return Choices(runner=runner)


@pytest.mark.parametrize("runner", ["sandbox", "docker"])
@pytest.mark.parametrize(("scenario", "case"), STRUCK, ids=names(STRUCK))
def test_it_ends_alike_each_time_and_a_clean_job_runs_where_it_ran(bench, scenario, case, runner):
    chosen = choices(runner)
    try:
        plan = make_plan(scenario, case, chosen)
    except BreakrankError as error:
        pytest.skip(str(error))
    lack = missing_for(plan, case.needs)
    if lack:
        pytest.skip(lack)
    ended = set()
    for _ in range(RUNS):
        result = bench.run(plan, case.record(runner))
        assert result.as_recorded, f"{result.verdict.outcome}: {result.verdict.sentence()} ({result.folder})"
        assert not [e for e in load_run(result.folder).history.seen("strike") if e["phase"] == "unhealed"]
        ended.add((result.verdict.outcome, result.verdict.digest))
    assert len(ended) == 1, ended
    clean = plan_of("small:train", ranks=plan.ranks, runner=runner, image=plan.image, deadline_s=60.0)
    after = bench.run(clean, programs=PROGRAMS).verdict
    assert after.outcome is Outcome.SURVIVED, after.sentence()
