"""`python -m breakrank watch`: the job runs as it is, and what goes wrong is said with who, where and why."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts" / "launched"


@pytest.fixture
def watch(tmp_path):
    """Watch two ranks of odd.py; return the finished process."""
    for path in SCRIPTS.iterdir():
        shutil.copy(path, tmp_path)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

    def go(what, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        command = [sys.executable, "-m", "breakrank", "watch", *options, "./pair.sh", port, what]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)

    return go


def test_a_healthy_job_passes_through_unchanged(watch):
    done = watch("well")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} step {step}" for rank in (0, 1) for step in range(4)]
    assert "breakrank: nothing to remark" in done.stderr


def test_a_job_that_raises_keeps_its_exit_code_and_its_rank_is_blamed(watch):
    done = watch("raise")
    assert done.returncode == 1
    assert "breakrank: DETECTED: rank 1 reported ValueError: the batch is empty at step 2" in done.stderr
    assert "breakrank: blame: rank 1: reported ValueError" in done.stderr
    assert "ValueError: the batch is empty\n" in done.stderr


def test_a_stalled_job_is_explained_while_it_stands_still(watch):
    done = watch("stop", "--end-stalled")
    assert done.returncode == 124
    assert "breakrank: stalled: rank 0 waits in allreduce_ at step 3 for rank 1, which stands still" in done.stderr
    assert "breakrank: blame: rank 1: stands still while others wait for it" in done.stderr
    assert "odd.py:" in done.stderr
    assert "HUNG" in done.stderr


def test_ranks_that_part_are_named_with_the_step(watch):
    done = watch("drift", "--drift")
    assert done.returncode == 0
    assert "breakrank: SILENT: the parameters of rank" in done.stderr and "part from" in done.stderr
    assert "at step 2" in done.stderr, done.stderr


def test_a_job_without_ranks_says_so(tmp_path):
    command = [sys.executable, "-m", "breakrank", "watch", "false"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "breakrank: VOID: no rank of 'false' called home" in done.stderr
