"""Ranks that Slurm has started: the job that a number stands for, and where its ranks are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.host import slurm_jobs

_CLIENTS = ("srun", "sbatch", "salloc")
_MARK = "slurm job "


def step_of(environment: Mapping[str, str]) -> str:
    """Return the step of Slurm's that a process is of, empty if it is of none: `slurm job 12.0`."""
    job, step = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_STEP_ID", "")
    return f"{_MARK}{job}.{step}" if job and step else ""


def job_of(number: int) -> str:
    """Return the job that a number stands for, as `slurm job 12`; empty if it stands for a process alone.

    It is that of srun, sbatch or salloc if the number is their pid, else the job of this number, where there is no such
    process. Raises `BreakrankError` if it may be one of several.
    """
    name = _name(number)
    if not name:
        known = slurm_jobs.word_on(f"{number}")
        return f"{_MARK}{number}" if known is not None and not known.over else ""
    if name not in _CLIENTS:
        return ""
    words = [slurm_jobs.word_on(job) for job in _submitted_from(number)]
    running = [job.number for job in words if job is not None and not job.over]
    if len(running) > 1:
        raise BreakrankError(
            f"process {number} is one of several commands of its session, which has the jobs {', '.join(running)}: "
            "give the number of one"
        )
    return f"{_MARK}{running[0]}" if running else ""


def _name(pid: int) -> str:
    """Return the name of a process, empty if there is none: a thread can be read there, too, and is none."""
    with contextlib.suppress(OSError):
        fields = dict(line.partition(":\t")[::2] for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return fields["Name"] if fields["Tgid"] == f"{pid}" else ""
    return ""


def _submitted_from(pid: int) -> list[str]:
    """Return the jobs that a command of Slurm's may have submitted, or the one that it runs in."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        inside = [os.fsdecode(word[13:]) for word in words if word.startswith(b"SLURM_JOB_ID=")]
        return inside or slurm_jobs.submitted_by(os.getsid(pid))
    return []


def elsewhere(job: str) -> str:
    """Say where the ranks of a job are that has none on this machine."""
    number = job.removeprefix(_MARK)
    word = slurm_jobs.word_on(number)
    if word is None or not word.nodes:
        return f"{job} has no nodes yet: {word.reason if word else 'the controller does not answer'}"
    return (
        f"{job} has no rank on this machine, it runs on {word.nodes}: ask there, as by "
        f"'srun --jobid={number} --overlap --ntasks-per-node=1 python -m breakrank why {number}'"
    )
