"""A task of Slurm's as a fault or a witness of the cluster sees it: its job, its node, the controller's programs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from breakrank.host.node_pid import Pid

#: Seconds that the controller may take over one question or order.
_ANSWERS_IN_S = 30.0


@dataclass(frozen=True)
class Task:
    """A task of a job, on a node."""

    job: str
    node: str

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
    return Task(job, node) if job and node else None
