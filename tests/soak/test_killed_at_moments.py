"""SIGKILL of pytest at ten moments of a session leaves nothing on this machine, on nodes of Slurm's, and on hosts.

The moments are states of the session's own files: a run that begins, a rank that is there, a step that is done. Pytest
is killed as soon as one is seen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import hosts, slurm
from support.ground import PYTEST

pytestmark = pytest.mark.soak

SCRIPT = """
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID")))
os.environ.setdefault("MASTER_ADDR", "n1")
os.environ.setdefault("MASTER_PORT", str(40000 + int(os.environ.get("SLURM_JOB_ID", "0")) % 20000))
dist.init_process_group("gloo", rank=rank, world_size=2)
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(torch.ones(4, 8) * rank).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
RECORDS = "attempt-0/rank-0.jsonl"
#: Moments: a file of the run holds a text. The controls come first.
MOMENTS = {
    "a run is planned": ("plan.json", ""),
    "the control begins": ("control/conductor.jsonl", ""),
    "its ranks are there": ("control/conductor.jsonl", '"spawned"'),
    "a step is done": (f"control/{RECORDS}", '"step":2'),
    "many steps are done": (f"control/{RECORDS}", '"step":20'),
    "a rank has ended": ("control/conductor.jsonl", '"ended"'),
    "the second control has ranks": ("control-again/conductor.jsonl", '"spawned"'),
    "a step of the struck run is done": (RECORDS, '"step":2'),
    "the strike has landed": ("conductor.jsonl", '"landed"'),
    "the verdict is there": ("verdict.json", ""),
}
#: Seconds until there must be nothing of ours any more. A limit, not a trigger.
GONE_S = 60.0


def come(folder: Path, moment: tuple[str, str]) -> bool:
    """Return whether a moment has come."""
    name, text = moment
    for run in folder.glob(".breakrank/killed_rank-*"):
        with contextlib.suppress(OSError):
            return text in (run / name).read_text(errors="replace")
    return False


def here(folder: Path) -> list[str]:
    """Return the processes of this machine, and of its nodes, that are of a session in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if process.name != str(os.getpid()) and str(folder).encode() in words:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in found if command]


def kill_at(moment: tuple[str, str], folder: Path, options: list[str]) -> None:
    """Start pytest in a folder, and kill it when a moment has come."""
    (folder / "train.py").write_text(SCRIPT)
    words = [*PYTEST, "-p", "breakrank.plugin", "--scenario=killed_rank", "-k", "collective", "--scenario-deadline=300"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    with (folder / "printed").open("w") as printed:
        started = subprocess.Popen([*words, *options], cwd=folder, env=env, stdout=printed, stderr=printed)
        try:
            while not come(folder, moment):
                assert started.poll() is None, (folder / "printed").read_text()
                time.sleep(0.01)
        finally:
            started.send_signal(signal.SIGKILL)
            started.wait()


def await_nothing(left) -> None:
    """Wait until nothing is left."""
    until = time.monotonic() + GONE_S
    while found := left():
        assert time.monotonic() < until, found
        time.sleep(0.2)


@pytest.mark.skipif(bool(slurm.lacks()), reason=slurm.lacks())
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_nothing_is_left_of_a_job_of_slurms(moment):
    with slurm.leased() as cluster, slurm.folder_of(cluster) as folder:
        (folder / "pytest.ini").write_text("[pytest]\n")
        kill_at(moment, folder, [f"--scenario-train=srun -n 2 -N 2 {sys.executable} train.py"])
        await_nothing(lambda: slurm.left(cluster, folder) + here(folder))


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory):
    with hosts.hosts(tmp_path_factory.mktemp("hosts"), shared=tmp_path_factory.getbasetemp()) as made:
        yield made


@pytest.mark.skipif(bool(hosts.lacks()), reason=hosts.lacks())
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_nothing_is_left_on_hosts(two_hosts, tmp_path, moment):
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nscenario_ssh = ssh -F {two_hosts.config}\n")
    kill_at(moment, tmp_path, ["--scenario-hosts=one,two", "--scenario-train=train.py"])
    there = two_hosts.names
    await_nothing(
        lambda: [*here(tmp_path), *(one for name in there for one in (*two_hosts.ours(name), *two_hosts.files(name)))]
    )
