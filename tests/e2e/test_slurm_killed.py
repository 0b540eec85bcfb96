"""SIGKILL of pytest leaves no process, no job and no folder of ours on any node of a Slurm cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from support.ground import PYTEST
from support.slurm import folder_of, lacks, leased, left

pytestmark = pytest.mark.skipif(bool(lacks()), reason=lacks())

#: A rank that waits until somebody ends it, after it has called.
SCRIPT = """
import signal

import torch

print("trains", flush=True)
signal.pause()
"""
#: Seconds until there must be nothing of ours any more. A limit, not a trigger.
GONE_S = 60.0


@pytest.fixture(scope="module")
def cluster():
    with leased() as made:
        yield made


@pytest.fixture
def shared(cluster):
    with folder_of(cluster) as folder:
        yield cluster, folder


@pytest.mark.parametrize("command", [f"srun -n 2 -N 2 {sys.executable} train.py", "sbatch --wait job.sh"])
def test_a_killed_pytest_leaves_nothing_on_any_node(shared, command):
    cluster, folder = shared
    (folder / "train.py").write_text(SCRIPT)
    (folder / "job.sh").write_text(f"#!/bin/sh\n#SBATCH -N 2 -n 2\nsrun {sys.executable} train.py\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    words = [*PYTEST, "-p", "breakrank.plugin", "--scenario=baseline", f"--scenario-train={command}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    null = subprocess.DEVNULL
    with subprocess.Popen([*words, "--scenario-deadline=300"], cwd=folder, env=env, stdout=null) as pytest_there:
        while not any('"spawned"' in path.read_text() for path in folder.glob(".breakrank/*/conductor.jsonl")):
            assert pytest_there.poll() is None
            time.sleep(0.05)
        assert left(cluster, folder)
        pytest_there.send_signal(signal.SIGKILL)
    until = time.monotonic() + GONE_S
    while left(cluster, folder):
        assert time.monotonic() < until, left(cluster, folder)
        time.sleep(0.2)
