"""`python -m breakrank why PID` on jobs that were started without us.

Method: tests/programs/told.py trains in ranks that are started by hand, or by torchrun, and does what a file says. The
job is looked at once its output and the kernel show that it has come to its place.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

#: The number of equal looks in a row that show that a thread waits for good.
LOOKS = 2000
PROGRAM = Path(__file__).parents[1] / "programs" / "told.py"


class Job:
    """A job in a folder of its own; its ranks write into one pipe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.lines: list[str] = []
        reading, self._writing = os.pipe()
        self._out = os.fdopen(reading)
        self.tell("train")

    def tell(self, word: str) -> None:
        """Write the word that says what the job shall do."""
        (self.folder / "word.new").write_text(word)
        (self.folder / "word.new").rename(self.folder / "word")

    def by_torchrun(self, ranks: int) -> int:
        """Start all ranks by torchrun and return its pid."""
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", str(PROGRAM)]
        return self._start([command])[0]

    def by_hand(self, world: int, ranks: Sequence[int]) -> list[int]:
        """Start some of the ranks and return their pids."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(world)}
        named = [["env", f"RANK={rank}", sys.executable, str(PROGRAM)] for rank in ranks]
        return self._start(named, **meet)

    def _start(self, commands: list[list[str]], **variables: str) -> list[int]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables}
        for command in commands:
            started = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=self._writing, stderr=subprocess.DEVNULL
            )
            self.started.append(started)
        # With our end closed, the output of a finished job ends, and its reader does not wait for good.
        os.close(self._writing)
        return [started.pid for started in self.started]

    def until(self, *lines: str) -> None:
        """Read until all of these lines have been printed."""
        while not set(lines) <= set(self.lines):
            self.lines.append(next(self._out).rstrip("\n"))

    def end(self) -> tuple[list[int], list[str]]:
        """Tell the job to end; return the exit codes and all lines, sorted."""
        self.tell("end")
        codes = [started.wait() for started in self.started]
        return codes, sorted([*self.lines, *self._out.read().splitlines()])

    def kill(self) -> None:
        """End all processes that are left of the job."""
        left = [child for one in self.started if one.poll() is None for child in psutil.Process(one.pid).children()]
        for one in [*self.started, *left]:
            one.kill()
        for one in [*self.started, *left]:
            one.wait()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.kill()


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, int, int]]:
    """Yield a job of two ranks, started by hand, with their pids. Each test leaves the job training and unharmed."""
    job = Job(tmp_path_factory.mktemp("training"))
    zero, one = job.by_hand(2, [0, 1])
    job.until("rank 0 trains", "rank 1 trains")
    yield job, zero, one
    ended = job.end()[0] if all(started.poll() is None for started in job.started) else "early"
    job.kill()
    assert ended == [0, 0]


def until_they_wait(*pids: int) -> None:
    """Wait until the kernel has shown the main threads asleep, look after look, without a wake-up in between."""
    last, equal = None, 0
    while equal < LOOKS:
        now = [Path(f"/proc/{pid}/task/{pid}/status").read_text() for pid in pids]
        counts = [re.findall(r"(?:State|.*ctxt_switches):\s*(.*)", text) for text in now]
        assert not any(count[0].startswith("Z") for count in counts), "it is over"
        equal = equal + 1 if counts == last and all(count[0].startswith("S") for count in counts) else 0
        last = counts


def why(*pids: int) -> str:
    """Run `why` as a person does, and return its output."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "breakrank", "why", *map(str, pids)]
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"{done.stdout}{done.stderr}this took {time.monotonic() - begun:.1f} s")
    assert done.returncode == 0 and not done.stderr
    return done.stdout


def test_the_rank_that_went_another_way_is_named_from_the_launchers_pid(job):
    launcher = job.by_torchrun(2)
    job.until("rank 0 trains", "rank 1 trains")
    job.tell("part")
    job.until("rank 1 parts")
    ranks = [child.pid for child in psutil.Process(launcher).children()]
    until_they_wait(*ranks)
    said = why(launcher)
    assert re.match(
        r"rank 0 waits in all_reduce \(told.py:\d+\), rank 1 in barrier \(told.py:\d+\): they went different ways\n",
        said,
    )
    assert all(f"[pid {pid}]" in said for pid in ranks)
    assert "dist.barrier()" in said and "dist.all_reduce(ones)" in said


def test_a_rank_that_spins_while_the_other_waits_is_named_from_the_others_pid(training):
    job, zero, _ = training
    job.tell("spin")
    job.until("rank 1 spins")
    until_they_wait(zero)
    first = why(zero).splitlines()[0]
    job.tell("train")
    assert re.fullmatch(
        r"rank 1 (runs in|is busy at) .*, rank 0 waits in all_reduce \(told.py:\d+\): rank 1 has not come to it", first
    )


def test_a_stopped_rank_is_named_and_stays_stopped(training):
    _, zero, one = training
    os.kill(one, signal.SIGSTOP)
    try:
        until_they_wait(zero)
        said, after = why(zero, one), psutil.Process(one).status()
    finally:
        # The job is shared by several tests, and a stopped rank would never end.
        os.kill(one, signal.SIGCONT)
    assert re.match(r"rank 1 is stopped (in|at) .*, rank 0 waits in .*: kill -CONT \d+ lets it go on\n", said)
    assert after == psutil.STATUS_STOPPED


def test_a_rank_that_was_never_started_is_named(job):
    _, one = job.by_hand(3, [0, 1])
    job.until("rank 0 starts", "rank 1 starts")
    assert why(one).startswith("rank 2 is missing, ")


def test_a_worker_that_its_rank_waits_for_is_named(job):
    """Rank 1 has come to its step, rank 0 waits for a sample."""
    zero, one = job.by_hand(2, [0, 1])
    job.until("rank 0 trains", "rank 1 trains")
    job.tell("load")
    job.until("rank 0 loads")
    until_they_wait(zero, one)
    said = why(one)
    assert re.match(
        r"rank 0 waits in DataLoader for a worker \(told.py:\d+\), rank 1 in all_reduce .*has not come", said
    )
    assert re.search(r"worker \d+ of rank 0 is at told.py:\d+", said)


def test_a_healthy_job_has_nothing_odd_and_is_none_the_worse(job):
    zero, _ = job.by_hand(2, [0, 1])
    job.until("rank 0 trains", "rank 1 trains")
    for _ in range(3):
        assert why(zero).startswith("nothing is odd: ")
    codes, lines = job.end()
    assert codes == [0, 0]
    assert lines == [
        f"rank {rank} {does}" for rank in (0, 1) for does in ("ends, every sum was right", "starts", "trains")
    ]


def test_what_is_no_job_is_one_line(tmp_path):
    with subprocess.Popen(["sleep", "1000"]) as sleeping:
        done = subprocess.run(
            [sys.executable, "-m", "breakrank", "why", str(sleeping.pid)], capture_output=True, text=True
        )
        sleeping.kill()
    assert done.returncode == 4 and not done.stdout
    assert done.stderr == (
        f"breakrank: process {sleeping.pid} is no Python process, and there is none below it: give a rank's pid\n"
    )
