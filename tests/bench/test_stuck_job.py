"""The time that `why` takes over a job that hangs and was started without us, from the command to its answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest
from measure import Measured, aim

TIMES = 10
#: The aim, in seconds.
AIM_S = 3.0

#: Rank 0 goes into a barrier, rank 1 into an all-reduce; each prints a line first.
PARTED = """\
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
print("parts", flush=True)
if dist.get_rank() == 0:
    dist.barrier()
dist.all_reduce(torch.ones(2))
"""


@pytest.fixture
def ranks(tmp_path):
    """Start two ranks by hand and return their pids once they have parted."""
    (tmp_path / "train.py").write_text(PARTED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            [sys.executable, "train.py"], cwd=tmp_path, env={**os.environ, **meet, "RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    for process in started:
        assert process.stdout.readline() == b"parts\n"
    yield [str(process.pid) for process in started]
    for process in started:
        process.kill()
        process.communicate()


def test_what_the_answer_to_why_takes(ranks):
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "breakrank", "why", *ranks], capture_output=True, text=True)
        taken.append(time.perf_counter() - began)
        assert "rank 0 waits in barrier" in done.stdout and "rank 1 in all_reduce" in done.stdout, done.stdout
    why = Measured("python -m breakrank why, two ranks that parted", taken, "cold", "the start of the job")
    why.show()
    aim(f"a verdict in under {AIM_S:g} s", max(taken) < AIM_S)
