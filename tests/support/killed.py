"""A pytest that runs a case of a scenario, watched from outside until a moment comes at which it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from breakrank.host.session_name import VARIABLE
from breakrank_agent.plan import Plan
from support.ground import PYTEST

#: Moments of a run, in their order, as they are seen from outside. The owner is killed when one of them has come.
MOMENTS = {
    "the supervisor runs": lambda job: job.processes(),
    "the zygote runs": lambda job: job.processes("breakrank_agent.start.zygote"),
    "the control's folder is there": lambda job: job.files("controls/*/plan.json"),
    "the control's ranks run": lambda job: job.files("controls/*/attempt-0/rank-1.jsonl"),
    "the run's folder is there": lambda job: job.files("killed_rank-*/plan.json"),
    "the first rank was started": lambda job: job.files("killed_rank-*/lines/attempt-0/rank-0.log"),
    "the second rank was started": lambda job: job.files("killed_rank-*/lines/attempt-0/rank-1.log"),
    "the ranks train": lambda job: job.text("killed_rank-*/attempt-0/rank-0.jsonl", '"step":2'),
    "the strike has landed": lambda job: job.text("killed_rank-*/conductor.jsonl", '"landed"'),
    "the second attempt runs": lambda job: job.files("killed_rank-*/lines/attempt-1/rank-0.log"),
}

#: The moments at which `make test` kills the owner; the soak kills it at each.
COVERING = ("the zygote runs", "the strike has landed", "the second attempt runs")


#: Seconds between two looks.
PAUSE_S = 0.05
#: Seconds within which processes must have ended. A limit, not a trigger: a busy machine ends them late.
ENDED_S = 60.0


class Job:
    """A pytest that runs a case of a scenario, watched from outside."""

    def __init__(self, folder: Path, *options: str, case: str = "killed_rank::torch-resuming-optimize") -> None:
        (folder / "pytest.ini").write_text("[pytest]\n")
        self.folder, self.printed = folder, folder / "printed.txt"
        command = [*PYTEST, "-q", "-p", "breakrank.plugin"]
        with self.printed.open("wb") as printed:
            self.owner = subprocess.Popen(
                [*command, f"--scenario={case}", *options],
                cwd=folder,
                stdout=printed,
                stderr=printed,
                env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
            )

    def await_moment(self, moment: Callable[[Job], object]) -> None:
        """Return as soon as the moment has come. A look takes as much of a core as the job does, so it has pauses."""
        while not moment(self):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.owner.wait(PAUSE_S)
                raise AssertionError("it was over before the moment came")

    def kill_at(self, moment: Callable[[Job], object]) -> None:
        """Kill pytest as soon as the moment has come."""
        self.await_moment(moment)
        self.kill()

    def kill(self) -> None:
        """Kill pytest, and nothing else."""
        os.kill(self.owner.pid, signal.SIGKILL)
        self.owner.wait()

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Return the processes that carry the session of this owner, all or those with `word` in their command."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(VARIABLE, "").startswith(f"{self.owner.pid}-"):
                    found += [process] if word in " ".join(process.cmdline()) else []
            except psutil.Error:
                pass
        return found

    def networks(self) -> set[str]:
        """Return the networks that only processes of this session are in."""
        return {network(process.pid) for process in self.processes()} - {network(os.getpid()), ""}

    def hold_networks(self) -> tuple[set[str], list[int]]:
        """Return those networks, and descriptors of all that the processes are in.

        A held network keeps its number. Without that, the kernel gives the number of a gone network to the next one.
        """
        held = []
        for process in self.processes():
            with contextlib.suppress(OSError):
                held.append(os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY))
        return {f"net:[{os.fstat(descriptor).st_ino}]" for descriptor in held} - {network(os.getpid())}, held

    def files(self, pattern: str) -> list[Path]:
        return list((self.folder / ".breakrank").glob(pattern))

    def text(self, pattern: str, word: str) -> bool:
        return any(word in path.read_text() for path in self.files(pattern))


def network(pid: int) -> str:
    """Return the network namespace of a process; empty if it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def dead(process: psutil.Process) -> bool:
    """Return whether a process has ended: an orphan's entry stays until the machine's init reaps it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def assert_nothing_is_left(folder: Path, moment: str) -> None:
    """Kill a pytest at a moment: its processes end, and each plan that it wrote can be read."""
    job = Job(folder)
    job.kill_at(MOMENTS[moment])
    left = job.processes()
    _, slow = psutil.wait_procs(left, timeout=ENDED_S)
    assert [process for process in slow if not dead(process)] == [] and job.processes() == []
    for path in job.files("*/plan.json"):
        Plan.loads(path.read_text())
