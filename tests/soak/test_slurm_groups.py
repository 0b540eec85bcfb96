"""A cluster that knows the processes of a step by control groups ends all of them with the step, the deputy, too."""

from __future__ import annotations

import pytest
from support.catalogued import SCENARIOS
from support.slurm import folder_of, lacks, leased_by_groups, left

from breakrank.plan.build import Choices, make_plan
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request

pytestmark = [pytest.mark.soak, pytest.mark.skipif(bool(lacks()), reason=lacks())]


@pytest.fixture(scope="module")
def cluster():
    with leased_by_groups() as made:
        yield made


@pytest.mark.parametrize("case", ["torch-plain", "torch-resuming"])
def test_all_that_ranks_did_is_told_before_their_step_is_ended(cluster, case):
    scenario = SCENARIOS["killed_rank"]
    found = next(one for one in scenario.cases if one.name == case)
    with folder_of(cluster) as folder, Bench(folder / "runs", cold=True) as bench:
        verdict = bench.run(Request(make_plan(scenario, found, Choices(runner="slurm")))).verdict
        assert (verdict.outcome, verdict.void) == (found.expect.outcome, ())
        assert left(cluster, folder) == []
