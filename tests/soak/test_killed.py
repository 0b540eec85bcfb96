"""SIGKILL pytest at each moment: with plain ranks, isolated ranks and containers, nothing of its session is left."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest
from support import containers
from support.killed import MOMENTS, Job, assert_nothing_is_left, dead, network

from breakrank.doctor import missing
from breakrank.runners.docker import part
from breakrank_agent.plan import Plan

pytestmark = pytest.mark.soak
#: The seconds that the engine may take to remove what the supervisor asks it to. A limit, no more.
REMOVED_S = 90.0
#: By kind of thing, the field of its name in docker's own templates.
NAMES = {"container": ".Names", "network": ".Name", "volume": ".Name"}


def in_the_engine(job: Job, *kinds: str) -> list[str]:
    """Return the containers, networks and volumes of a job's session, as the engine lists them."""
    found: list[str] = []
    for kind in kinds or ("container", "network", "volume"):
        every = ["--all"] if kind == "container" else []
        label = part("sweep").LABEL
        shown = f'{kind} {{{{{NAMES[kind]}}}}} {{{{.Label "{label}"}}}}'
        command = ["docker", kind, "ls", *every, "--filter", f"label={label}", "--format", shown]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        found += [line for line in lines if line.split()[2].startswith(f"{job.owner.pid}-")]
    return found


#: Moments that only a run in containers has.
CONTAINED = {
    "the containers' network is there": lambda job: in_the_engine(job, "network"),
    "the first container is there": lambda job: in_the_engine(job, "container"),
}


def left_files_can_be_read(job: Job) -> bool:
    return all(Plan.loads(path.read_text()) for path in job.files("*/plan.json"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_when_pytest_is_killed(tmp_path: Path, moment: str) -> None:
    assert_nothing_is_left(tmp_path, moment)


@pytest.mark.skipif(bool(missing(["netns"])), reason=missing(["netns"]))
@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_of_walls_when_pytest_is_killed(tmp_path: Path, moment: str) -> None:
    job = Job(tmp_path, "--scenario-runner=sandbox")
    while not MOMENTS[moment](job):
        assert job.owner.poll() is None, "it was over before the moment came"
    networks = job.networks()
    job.kill()
    inside = [process for process in psutil.process_iter() if network(process.pid) in networks]
    _, slow = psutil.wait_procs([*job.processes(), *inside], timeout=2)
    assert [process for process in slow if not dead(process)] == [] and job.processes() == []
    assert networks & {network(pid) for pid in psutil.pids()} == set()
    assert left_files_can_be_read(job)


@pytest.mark.parametrize("moment", [*MOMENTS, *CONTAINED])
def test_nothing_is_left_in_the_engine_when_pytest_is_killed(tmp_path: Path, moment: str) -> None:
    image = containers.require(containers.TORCH)
    job = Job(tmp_path, f"--scenario-image={image}")
    job.kill_at({**MOMENTS, **CONTAINED}[moment])
    began = time.monotonic()
    while left := [*in_the_engine(job), *(process for process in job.processes() if not dead(process))]:
        assert time.monotonic() < began + REMOVED_S, left
    assert left_files_can_be_read(job)
