"""A task of Slurm's as a fault or a witness of the cluster sees it: its job, its node, the controller's programs."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass

from breakrank.host import places
from breakrank.host.node_pid import Pid
from breakrank.host.slurm_jobs import partitions_above, switches

#: Seconds that the controller may take over one question or order.
_ANSWERS_IN_S = 30.0


@dataclass(frozen=True)
class Task:
    """A task of a job, on a node."""

    job: str
    node: str
    pid: Pid

    def step(self) -> str:
        """Return the step that runs: the last one that was begun. Raises `OSError` if there is none."""
        steps = sorted(self.steps(), key=lambda step: int(step.rpartition(".")[2]))
        if not steps:
            raise OSError(f"no step of job {self.job} runs")
        return steps[-1]

    def steps(self) -> list[str]:
        """Return the steps of the job that run and have a number. Raises `OSError`."""
        listed = self.run("squeue", "--steps", "--noheader", f"--jobs={self.job}", "--format=%i").split()
        return [step for step in listed if step.rpartition(".")[2].isdecimal()]

    def says(self, name: str) -> str:
        """Return what the controller has of the job under a name. Raises `OSError`."""
        found = re.search(rf"\b{name}=(\S+)", self.run("scontrol", "-o", "show", "job", self.job))
        return found[1] if found else ""

    def seconds_left(self) -> float:
        """Return how long it is until the time limit of the job. Raises `OSError`."""
        ends = self.says("EndTime")
        try:
            return time.mktime(time.strptime(ends, "%Y-%m-%dT%H:%M:%S")) - time.time()
        except ValueError:
            raise OSError(f"job {self.job} has no time limit: its end is {ends or 'not known'}") from None

    def urgent(self) -> str:
        """Return a partition whose jobs take the nodes of this one. Raises `OSError` if there is none."""
        own = self.says("Partition")
        for name in partitions_above(own):
            return name
        raise OSError(f"no partition takes nodes from {own}")

    def stands_still(self) -> bool:
        """Return whether the rank was told to stand still, as the kernel of its node has it."""
        return self.pid in places.stopped_among([self.pid])

    def pending(self, number: int) -> str:
        """Return how the rank will treat a signal that waits for it, empty if none does."""
        return places.pending(self.pid, number)

    def turn(self, what: str, on: bool) -> None:
        """Turn a host of the test cluster, its daemon or its cable off or on. Raises `OSError`."""
        word = switches() / what
        if on:
            word.unlink(missing_ok=True)
        else:
            word.touch()

    def run(self, *command: str) -> str:
        """Run a program of Slurm's, and return what it prints. Raises `OSError` with what it says if it fails."""
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ANSWERS_IN_S
            )
        except subprocess.TimeoutExpired:
            raise OSError(f"{command[0]} did not answer within {_ANSWERS_IN_S:g} s") from None
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1])
        return done.stdout


def task_of(pid: Pid) -> Task | None:
    """Return the task that a rank of another node is, or None if Slurm has not started it."""
    if isinstance(pid, int):
        return None
    facts = pid.node.hello.get("slurm", {})
    job, node = facts.get("SLURM_JOB_ID", ""), facts.get("SLURMD_NODENAME", "")
    return Task(job, node, pid) if job and node else None
