"""The controller's word on jobs is read, and no job is taken for ours that another session has submitted."""

from __future__ import annotations

import os
import socket

import pytest

from breakrank.host import slurm_jobs
from breakrank.host.slurm_jobs import Job

LINE = (
    "JobId=2 JobName=sleep UserId=root(0) JobState={state} Reason={reason} Requeue=1 Restarts=3 BatchFlag=0 "
    "ExitCode={code} NodeList={nodes} Command=/a b/c ExitCode=9:9"
)


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Have a program of Slurm's print a text, and note how it was called."""

    def program(name, text):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncat <<"END"\n{text}\nEND\n')
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.mark.parametrize(
    ("state", "code", "over", "failed"),
    [
        ("RUNNING", "0:0", False, False),
        ("PENDING", "0:0", False, False),
        ("COMPLETED", "0:0", True, False),
        ("COMPLETING", "1:0", True, True),
        ("FAILED", "1:0", True, True),
        ("CANCELLED", "0:15", True, True),
        ("NODE_FAIL", "0:0", True, True),
        ("TIMEOUT", "0:1", True, True),
    ],
)
def test_a_job_is_over_and_failed_as_the_controller_says(says, state, code, over, failed):
    says("scontrol", LINE.format(state=state, reason="None", code=code, nodes="n[1-2]"))
    job = slurm_jobs.word_on("2")
    assert job is not None
    assert (job.state, job.over, job.failed, job.restarts, job.nodes) == (state, over, failed, 3, "n[1-2]")


def test_a_job_that_waits_says_for_what(says):
    says("scontrol", LINE.format(state="PENDING", reason="Resources", code="0:0", nodes="(null)"))
    assert slurm_jobs.word_on("2") == Job("2", "PENDING", "Resources", "", 3, 0, 0)


def test_jobs_of_other_sessions_and_other_hosts_are_not_ours(says):
    host = socket.gethostname().partition(".")[0]
    says("squeue", f"5  4711  {host}.lan\n6  4712  {host}\n7  4711  elsewhere\n8_[1-3]  4711  {host}")
    assert slurm_jobs.submitted_by(4711) == ["5", "8_[1-3]"]


def test_nothing_is_cancelled_where_nothing_is_ours(says, tmp_path):
    says("scancel", "")
    slurm_jobs.end([])
    assert not (tmp_path / "calls").exists()
    slurm_jobs.end(["5"])
    assert (tmp_path / "calls").read_text().splitlines() == ["--quiet 5", "--quiet --signal=KILL --full 5"]


def test_without_slurm_there_is_no_answer(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm_jobs.word_on("1") is None
    assert slurm_jobs.submitted_by(1) == []


PARTITIONS = """
PartitionName=batch Default=YES Nodes=n[1-3] PriorityTier=1 PreemptMode={mode}
PartitionName=urgent Default=NO Nodes=n[1-3] PriorityTier={tier} PreemptMode=OFF
PartitionName=other Default=NO Nodes=m[1-3] PriorityTier=20 PreemptMode=OFF
PreemptType             = preempt/{kind}
"""


@pytest.mark.parametrize(
    ("kind", "tier", "mode", "above", "lack"),
    [
        ("partition_prio", 10, "REQUEUE", ["urgent"], ""),
        ("partition_prio", 1, "REQUEUE", [], "no partition has a higher PriorityTier"),
        ("partition_prio", 10, "OFF", [], "no partition has a higher PriorityTier"),
        ("none", 10, "REQUEUE", ["urgent"], "no partition of this cluster preempts another"),
    ],
)
def test_a_partition_preempts_one_of_a_lower_tier_with_the_same_nodes(says, kind, tier, mode, above, lack):
    for name in ("srun", "sbatch", "squeue", "sinfo"):
        says(name, "")
    says("scontrol", PARTITIONS.format(kind=kind, tier=tier, mode=mode))
    assert slurm_jobs.partitions_above("batch") == above
    said = slurm_jobs.no_preemption()
    assert said.startswith(lack) and bool(said) == bool(lack)


def test_only_hosts_of_the_test_cluster_can_be_turned_off(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "etc" / "slurm.conf"))
    with pytest.raises(OSError, match="only the hosts of the test cluster"):
        slurm_jobs.switches()
    (tmp_path / "off").mkdir()
    assert slurm_jobs.switches() == tmp_path / "off"
