"""Faults of the cluster itself strike jobs of a real Slurm, are witnessed by its controller, and are healed."""

from __future__ import annotations

import pytest
from support.catalogued import SCENARIOS
from support.slurm import bench_on_cluster, lacks

from breakrank.plan.build import Choices, make_plan
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome

pytestmark = [pytest.mark.soak, pytest.mark.skipif(bool(lacks()), reason=lacks())]

WITNESSES = {
    "cancelled_step": "squeue --steps",
    "requeued_job": "scontrol show job",
    "preempted_job": "scontrol show job",
    "lost_node": "scontrol show node",
}
CASES = [(name, case) for name in WITNESSES for case in SCENARIOS[name].cases]


def struck(bench, name, case):
    """Run a case; return the result, the history, and the strikes that landed."""
    result = bench.run(Request(make_plan(SCENARIOS[name], case, Choices())))
    history = load_run(result.folder).history
    return result, history, [event for event in history.seen("strike") if event["phase"] == "landed"]


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case.name}" for name, case in CASES])
def test_a_job_is_struck_by_its_cluster_as_is_on_record(name, case):
    with bench_on_cluster(alone=True) as bench:
        result, history, landed = struck(bench, name, case)
        assert [(event["attempt"], event["rank"]) for event in landed] == [(0, 1)]
        assert landed[0]["witness"].startswith(WITNESSES[name])
        assert not result.verdict.void
        assert case.expect.outcome is result.verdict.outcome
        assert history.attempts == [0, 1]


#: Strikes on all ranks of a step: the witness of each rank.
ON_ALL = {"signalled_step": "/proc/<pid>/status on the node", "near_time_limit": "scontrol show job: EndTime"}
WARNED = [(name, case) for name in ON_ALL for case in SCENARIOS[name].cases]


@pytest.mark.parametrize(("name", "case"), WARNED, ids=[f"{name}-{case.name}" for name, case in WARNED])
def test_a_step_is_warned_by_its_cluster_as_is_on_record(name, case):
    """The sound twin saves at the warning and goes on from there; the broken one says that it has done a step more."""
    with bench_on_cluster(alone=True) as bench:
        result, history, landed = struck(bench, name, case)
        assert sorted((event["attempt"], event["rank"]) for event in landed) == [(0, 0), (0, 1)], result.verdict.void
        assert all(event["witness"].startswith(ON_ALL[name]) for event in landed)
        assert not result.verdict.void
        assert case.expect.outcome is result.verdict.outcome
        assert history.attempts == [0, 1]


def test_a_step_outlives_the_daemon_of_its_node():
    (case,) = SCENARIOS["lost_daemon"].cases
    with bench_on_cluster(alone=True) as bench:
        result, _, landed = struck(bench, "lost_daemon", case)
        assert [event["witness"].startswith("sinfo: ") for event in landed] == [True], result.verdict.void
        assert (result.verdict.outcome, result.verdict.void) == (Outcome.SURVIVED, ())
