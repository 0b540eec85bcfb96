"""Slurm as its users have it: without rights, inside an allocation, with closed ports, and with nodes that are busy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.ground import PYTEST
from support.slurm import folder_of, lacks, leased, left

pytestmark = [pytest.mark.soak, pytest.mark.skipif(bool(lacks()), reason=lacks())]

SCRIPT = """
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

rank = int(os.environ["SLURM_PROCID"])
port = 40000 + (int(os.environ["SLURM_JOB_ID"]) * 31 + int(os.environ["SLURM_STEP_ID"])) % 20000
os.environ |= {"MASTER_ADDR": "n1", "MASTER_PORT": str(port)}
dist.init_process_group("gloo", rank=rank, world_size=2)
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    model(torch.ones(4, 8) * rank).square().mean().backward()
    optimizer.step()
if rank == 0:
    torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
"""
TRAIN = f"srun -n 2 -N 2 {sys.executable} train.py"
NOBODY = 65534


@pytest.fixture
def ground():
    """Yield the cluster, alone, and a folder with a script that the nodes see."""
    with leased(alone=True) as cluster, folder_of(cluster) as folder:
        (folder / "train.py").write_text(SCRIPT)
        (folder / "pytest.ini").write_text("[pytest]\n")
        yield cluster, folder
        assert left(cluster, folder) == []


def words(scenario: str, train: str = TRAIN) -> list[str]:
    """Return a command of pytest's."""
    plain = [*PYTEST, "-p", "breakrank.plugin", "-p", "no:cacheprovider", "--scenario-deadline=300"]
    return [*plain, f"--scenario={scenario}", "-k", "collective or baseline", f"--scenario-train={train}"]


def environment(folder) -> dict[str, str]:
    """Return the environment of a pytest that is none of ours."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return {**env, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def run(folder, command: list[str], **how) -> tuple[int, str]:
    """Run a command in a folder, and return its exit code and what it printed."""
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=folder, env=environment(folder), text=True, **both, **how)
    return done.returncode, done.stdout


def test_a_user_without_rights_has_all_of_it(ground):
    """Breakrank's own files have to be readable to that user: they are, in an installation."""
    _, folder = ground
    os.chown(folder, NOBODY, NOBODY)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    if run(folder, [sys.executable, "-c", "import breakrank, torch"], **user)[0]:
        pytest.skip("the code of this checkout cannot be read by another user")
    code, printed = run(folder, words("killed_rank"), **user)
    assert code == 0 and "DETECTED" in printed, printed


def test_pytest_inside_an_allocation_has_its_steps_there(ground):
    _, folder = ground
    code, printed = run(folder, ["salloc", "-N", "2", "-n", "2", *words("killed_rank")])
    assert code == 0 and "DETECTED" in printed, printed


def test_pytest_inside_a_batch_job_has_its_steps_there(ground):
    _, folder = ground
    wrapped = subprocess.list2cmdline(words("killed_rank")).replace('"', "'")
    code, _ = run(folder, ["sbatch", "--wait", "-N", "2", "-n", "2", "--output=printed", f"--wrap={wrapped}"])
    printed = (folder / "printed").read_text()
    assert code == 0 and "DETECTED" in printed, printed


@contextmanager
def closed_ports(cluster) -> Iterator[None]:
    """Let nothing through from the nodes to this machine but Slurm's own ports."""
    own = ["-p", "tcp", "--syn", "-m", "multiport", "!", "--dports", "26817:26818,61000:62999", "-j", "REJECT"]
    rule = ["OUTPUT", "-d", "10.78.0.254", *own]
    for node in cluster.layout.names:
        assert cluster.on(node, "iptables", "-A", *rule).returncode == 0
    try:
        yield
    finally:
        for node in cluster.layout.names:
            cluster.on(node, "iptables", "-D", *rule)


def test_closed_ports_are_said_in_one_line(ground):
    cluster, folder = ground
    with closed_ports(cluster):
        code, printed = run(folder, words("baseline"))
    assert code == 1 and "VOID" in printed, printed
    said = "node n1: the machine that runs pytest cannot be reached by TCP (10.78.0.254:"
    assert said in " ".join(printed.split()), printed


def test_the_line_of_progress_says_what_a_job_waits_for(ground):
    cluster, folder = ground
    busy = cluster.ask("sbatch", "--parsable", "-N", "3", "--exclusive", "--output=/dev/null", "--wrap=sleep 1000")
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(words("baseline"), cwd=folder, env=environment(folder), text=True, **both) as started:
        printed = []
        for line in started.stdout:
            printed.append(line)
            if " waits: " in line and busy.strip():
                cluster.ask("scancel", busy.strip())
                busy = ""
    assert started.returncode == 0 and not busy, "".join(printed)
    assert any("after" in line and "waits: Resources" in line for line in printed), "".join(printed)
