"""Every runner: a sound job survives under it, and a rank that is killed is seen to end."""

from __future__ import annotations

import pytest
from support import containers, hosts, slurm

from breakrank.doctor import missing
from breakrank.nodes.host_names import Hosts
from breakrank.runners import find_runner, offered_runners
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Yield two hosts that see the folder of the runs. Skips where this machine cannot have any."""
    if hosts.lacks():
        pytest.skip(f"hosts: {hosts.lacks()}")
    with hosts.hosts(tmp_path_factory.mktemp("hosts"), shared=tmp_path_factory.getbasetemp()) as made:
        yield made


@pytest.fixture(scope="module")
def on_slurm():
    """Yield a bench whose runs the nodes of a cluster see. Skips where this machine cannot have one."""
    if slurm.lacks():
        pytest.skip(slurm.lacks())
    with slurm.bench_on_cluster() as made:
        yield made


@pytest.fixture
def ground(request, runner, bench, monkeypatch):
    """Return the bench that a runner is tried on; where it needs hosts, the bench knows some."""
    if runner == "slurm":
        return request.getfixturevalue("on_slurm")
    if runner == "hosts":
        cluster = request.getfixturevalue("cluster")
        monkeypatch.setattr(bench._resources, "hosts", Hosts(cluster.names, ("ssh", "-F", str(cluster.config))))
    return bench


def under(runner: str) -> dict[str, str]:
    """Return the values of a plan for a runner. Skips where this machine lacks what it needs."""
    if find_runner(runner).has_image:
        return {"runner": runner, "image": containers.require(containers.TORCH)}
    lack = missing(find_runner(runner).needs)
    if lack:
        pytest.skip(f"{runner} {lack}")
    return {"runner": runner}


@pytest.mark.parametrize("runner", offered_runners())
def test_a_sound_job_survives_under_it(run, ground, runner):
    result, saved = run("small:train", on=ground, **under(runner))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert [lived.status for lived in saved.history.last] == [0, 0]


@pytest.mark.parametrize("runner", offered_runners())
def test_a_kill_lands_under_it(run, ground, runner):
    result, saved = run("small:train", faults.Kill() @ at(rank=1, step=2), on=ground, **under(runner))
    landed = [(e["rank"], e["witness"]) for e in saved.history.seen("strike") if e["phase"] == "landed"]
    # A rank in a container, or one that Slurm started, is no child of ours: its end is read from its pidfd.
    told_by = "pidfd" if find_runner(runner).has_image or runner == "slurm" else "waitpid"
    assert landed == [(1, f"{told_by}: SIGKILL")], result.verdict
    assert saved.history.last[1].status == -9
